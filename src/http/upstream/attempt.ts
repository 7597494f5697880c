/**
 * One attempt to forward a request to an upstream and its answer to the client. It connects the upstream's client with
 * the socket of the gateway's client, without a stream object for the answer.
 *
 * The time to get a connection (`connectMs`) is measured here with the host's clock, because undici has no limit for
 * queued requests.
 *
 * A request is sent again only if it cannot have been processed twice: if no connection was made (then to another URL),
 * or if a GET or HEAD without a body was sent on a kept-alive connection that the server had already closed (RFC 9110
 * section 9.2.2).
 */
import { refuse } from "../../errors.ts";
import type { ChildSpan, Counter, Exchange, Reply, Sink } from "../../plugin.ts";
import type { Waiting } from "../../wait-limit.ts";
import { responseFields, trailerFields, type FieldRules } from "../headers.ts";
import type { ForwardedExchange, ForwardedHead, ForwardFailure } from "./undici-client.ts";
import type { Upload } from "./upload.ts";
import type { Carrier } from "./upstream-client.ts";
import type { Member, UpstreamPools } from "./upstream.ts";

export type FailureReason = "unreachable" | "timedOut" | "broken";

/** The shared parts of all requests of a forwarder. */
export interface ForwardPlan {
  readonly upstream: UpstreamPools;
  readonly answerRules: FieldRules;
  readonly failures: Readonly<Record<FailureReason, Counter>>;
}

/** A request to an upstream, for all of its attempts. */
export interface Outgoing {
  readonly method: string;
  /** Path and query. The path of the upstream's URL is prepended. */
  readonly target: string;
  readonly headers: string[];
  /** A streamed body is created for each attempt, because undici destroys the stream that it was given. */
  readonly body: Buffer | (() => Upload) | null;
  /** The span of all attempts, which ends here. */
  readonly span: ChildSpan | undefined;
}

type Ended = PromiseWithResolvers<Reply | undefined>;

/** Resolves to a Reply if nothing was sent to the client, or to undefined when the answer has ended or failed. */
export function send(
  x: Exchange,
  plan: ForwardPlan,
  outgoing: Outgoing,
): Promise<Reply | undefined> {
  const ended: Ended = Promise.withResolvers();
  new Attempt(x, plan, outgoing, 1, ended).begin();
  return ended.promise;
}

/** Maximum number of bytes that are buffered before the client's side is open. Then the upstream is paused. */
const maxEarlyBytes = 64 * 1024;

/** One exchange with an upstream. A retry is another attempt. */
class Attempt implements ForwardedExchange, Waiting {
  request: ForwardedExchange["request"] = { method: "", path: "" };
  waitingSince = 0;
  before: Waiting | undefined = undefined;
  behind: Waiting | undefined = undefined;
  readonly #x: Exchange;
  readonly #plan: ForwardPlan;
  readonly #outgoing: Outgoing;
  readonly #count: number;
  readonly #result: Ended;
  #phase: "connecting" | "sent" | "answering" | "done" = "connecting";
  #member: Member | undefined;
  #carrier: Carrier | undefined;
  #status = 0;
  #sink: Sink | undefined;
  /** True while `x.stream` is pending, so that its hooks may still be running. */
  #opening = false;
  #failure: "upstreamFailed" | "timedOut" = "upstreamFailed";
  #upload: Upload | undefined;
  #early: Buffer[] | undefined;
  #earlyBytes = 0;
  #ended = false;
  #trailers: string[] | undefined;

  constructor(x: Exchange, plan: ForwardPlan, outgoing: Outgoing, count: number, result: Ended) {
    this.#x = x;
    this.#plan = plan;
    this.#outgoing = outgoing;
    this.#count = count;
    this.#result = result;
  }

  begin(): void {
    const { upstream } = this.#plan;
    const member = upstream.next();
    if (member === undefined || upstream.crowded) return this.#refuse("unreachable");
    this.#member = member;
    this.#x.onAbort = this;
    const { method, target, headers, body } = this.#outgoing;
    if (typeof body === "function") this.#upload = body();
    const path = member.basePath === "" ? target : member.basePath + target;
    this.request = {
      method,
      path,
      headers,
      body: typeof body === "function" ? this.#upload : body,
    };
    member.client.send(this);
    if (this.#phase === "connecting") upstream.wait(this);
  }

  // Callbacks of the upstream's client:

  onStart(carrier: Carrier): void {
    if (this.#phase === "done") return carrier.abort();
    this.#plan.upstream.done(this);
    this.#member?.ejection.succeeded();
    this.#phase = "sent";
    this.#carrier = carrier;
  }

  onHead({ status, headers, raw }: ForwardedHead): void {
    if (this.#phase === "done") return;
    const { method } = this.#outgoing;
    const fields = responseFields(raw, { method, status, headers }, this.#plan.answerRules);
    if (status < 200) return fields && this.#x.informational(status, fields);
    this.#outgoing.span?.set({ "http.response.status_code": status });
    if (fields === undefined) {
      this.#refuse("broken");
      return this.#carrier?.abort();
    }
    this.#status = status;
    this.#phase = "answering";
    this.#opening = true;
    this.#x
      .stream(status, fields)
      .then((sink) => this.#opened(sink))
      .catch((error: unknown) => this.#notOpened(error));
  }

  onData(chunk: Buffer): void {
    if (this.#sink !== undefined) {
      if (!this.#sink.write(chunk)) this.#pause(this.#sink);
      return;
    }
    (this.#early ??= []).push(chunk);
    this.#earlyBytes += chunk.length;
    if (this.#earlyBytes >= maxEarlyBytes) this.#carrier?.pause();
  }

  onEnd(trailers: readonly Buffer[] | undefined): void {
    this.#trailers = trailerFields(trailers);
    this.#ended = true;
    if (this.#sink !== undefined) this.#end(this.#sink);
  }

  onError(failure: ForwardFailure): void {
    if (this.#phase === "done") return;
    const uploadFailure = this.#upload?.failure;
    if (uploadFailure !== undefined) return this.#uploadFailed(uploadFailure);
    const timedOut = failure === "answerTimeout" || failure === "idleTimeout";
    if (this.#phase === "answering") this.#cut(timedOut ? "timedOut" : "broken");
    else if (this.#phase === "sent") {
      if (failure === "stale" && this.#isRepeatable) this.#again();
      else this.#refuse(timedOut ? "timedOut" : "broken");
    } else if (failure === "invalid") {
      this.#finish(
        "invalid",
        refuse("GATEWAY_INVALID_PARAMS", { message: "the request cannot be forwarded" }),
      );
    } else this.#unreachable();
  }

  // Events of the client's side:

  #opened(sink: Sink): void {
    this.#opening = false;
    if (this.#phase === "done") {
      // The upstream failed, or the client left, while the response hooks were running.
      sink.fail(this.#failure);
      return this.#result.resolve(undefined);
    }
    this.#sink = sink;
    let room = true;
    for (const chunk of this.#early ?? []) room = sink.write(chunk);
    this.#early = undefined;
    if (this.#ended) this.#end(sink);
    else if (room) this.#carrier?.resume();
    else this.#pause(sink);
  }

  #pause(sink: Sink): void {
    this.#carrier?.pause();
    sink.onDrain ??= () => this.#carrier?.resume();
  }

  #notOpened(error: unknown): void {
    this.#finish("internal");
    this.#carrier?.abort();
    this.#result.reject(error);
  }

  #end(sink: Sink): void {
    this.#phase = "done";
    this.#x.onAbort = undefined;
    // In a client span, every status from 400 is an error (OpenTelemetry's conventions for HTTP).
    this.#outgoing.span?.end(this.#status < 400 ? undefined : String(this.#status));
    sink.end(this.#trailers).then(() => this.#result.resolve(undefined), this.#result.reject);
  }

  /** The client has left. */
  aborted(): void {
    this.#sink?.fail("upstreamFailed");
    this.#finish("clientLeft");
    this.#carrier?.abort();
  }

  // Failures:

  /** Called when there was no connection in time: all are in use, or none can be made. */
  expired(): void {
    this.#unreachable();
  }

  #unreachable(): void {
    const { upstream } = this.#plan;
    const member = this.#member;
    if (member?.client.stats.connected === 0 && member.ejection.failed()) member.ejection.eject();
    if (this.#count < upstream.members.length) this.#again();
    else this.#refuse("unreachable");
  }

  /** True if the request may be sent again after a kept connection turned out to be closed. */
  get #isRepeatable(): boolean {
    const { method, body } = this.#outgoing;
    if (body !== null || (method !== "GET" && method !== "HEAD")) return false;
    return this.#count <= this.#plan.upstream.members.length;
  }

  #again(): void {
    this.#phase = "done";
    this.#plan.upstream.done(this);
    const count = this.#count + 1;
    new Attempt(this.#x, this.#plan, this.#outgoing, count, this.#result).begin();
  }

  #uploadFailed(reason: "tooLarge" | "clientLeft"): void {
    if (this.#phase === "answering") return this.#cut("broken");
    const tooLarge = reason === "tooLarge";
    this.#finish(
      tooLarge ? "tooLarge" : "clientLeft",
      refuse("GATEWAY_INVALID_PARAMS", {
        status: tooLarge ? 413 : 400,
        message: tooLarge ? "the body is too large" : "the body is incomplete",
      }),
    );
  }

  #refuse(reason: FailureReason): void {
    this.#plan.failures[reason].add(1);
    this.#finish(reason, refuse("GATEWAY_SERVICE_UNAVAILABLE"));
  }

  /**
   * Cuts the answer. The head was already sent, so only a closed connection shows the client that the rest is missing.
   */
  #cut(reason: FailureReason): void {
    this.#plan.failures[reason].add(1);
    if (reason === "timedOut") this.#failure = "timedOut";
    this.#sink?.fail(this.#failure);
    this.#finish(reason);
  }

  /** Ends the attempt without an answer, or in the middle of one. `error`: the reason, for the span. */
  #finish(error: string, reply?: Reply): void {
    this.#phase = "done";
    this.#outgoing.span?.end(error);
    this.#plan.upstream.done(this);
    this.#x.onAbort = undefined;
    this.#upload?.destroy();
    if (!this.#opening) this.#result.resolve(reply);
  }
}
