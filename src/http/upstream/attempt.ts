/**
 * One attempt to forward a request to an upstream and its answer to the client. It connects undici's dispatcher with
 * the client's socket, without a stream object for the answer.
 *
 * Deadlines: the time to get a connection (`connectMs`) is measured with the host's clock, because undici has no limit
 * for queued requests. `headersMs` and `idleMs` are undici's own timers, which are cheap to refresh and up to one
 * second late. They end the attempt if the upstream falls silent, but not if the client reads slowly.
 *
 * A request is sent again only if it cannot have been processed twice: if no connection was made (then to another URL),
 * or if a GET or HEAD without a body was sent on a kept-alive connection that the server had already closed (RFC 9110
 * section 9.2.2).
 */
import type { Dispatcher } from "undici";
import { refuse } from "../../errors.ts";
import type { ChildSpan, Counter, Exchange, Reply, Sink } from "../../plugin.ts";
import { responseFields, trailerFields, type FieldRules } from "../headers.ts";
import { UploadError, type Upload } from "./upload.ts";
import type { Member, UpstreamPools, Waiting } from "./upstream.ts";

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

type Resolve = (reply: Reply | undefined) => void;

/** Resolves to a Reply if nothing was sent to the client, or to undefined when the answer has ended or failed. */
export function send(
  x: Exchange,
  plan: ForwardPlan,
  outgoing: Outgoing,
): Promise<Reply | undefined> {
  return new Promise((resolve, reject) => {
    new Attempt(x, plan, outgoing, 1, resolve, reject).begin();
  });
}

/** The reason that undici requires for an abort. It is never shown. */
const abortReason = new Error("abandoned");

/** Maximum number of bytes that are buffered before the client's side is open. Then the upstream is paused. */
const maxEarlyBytes = 64 * 1024;

/** One dispatch of a request, as undici's handler. A retry is another attempt. */
class Attempt implements Dispatcher.DispatchHandler, Waiting {
  waitingSince = 0;
  before: Waiting | undefined = undefined;
  behind: Waiting | undefined = undefined;
  readonly #x: Exchange;
  readonly #plan: ForwardPlan;
  readonly #outgoing: Outgoing;
  readonly #count: number;
  readonly #resolve: Resolve;
  readonly #reject: (error: unknown) => void;
  #phase: "connecting" | "sent" | "answering" | "done" = "connecting";
  #member: Member | undefined;
  #controller: Dispatcher.DispatchController | undefined;
  #status = 0;
  /** True after the first byte of an answer has arrived. */
  #answered = false;
  #sink: Sink | undefined;
  /** True while `x.stream` is pending, so that its hooks may still be running. */
  #opening = false;
  #failure: "upstreamFailed" | "timedOut" = "upstreamFailed";
  #upload: Upload | undefined;
  #early: Buffer[] | undefined;
  #earlyBytes = 0;
  #ended = false;
  #trailers: string[] | undefined;

  constructor(
    x: Exchange,
    plan: ForwardPlan,
    outgoing: Outgoing,
    count: number,
    resolve: Resolve,
    reject: (error: unknown) => void,
  ) {
    this.#x = x;
    this.#plan = plan;
    this.#outgoing = outgoing;
    this.#count = count;
    this.#resolve = resolve;
    this.#reject = reject;
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
    member.pool.dispatch(
      { method, path, headers, body: typeof body === "function" ? this.#upload : body },
      this,
    );
    if (this.#phase === "connecting") upstream.wait(this);
  }

  // Callbacks of undici:

  onRequestStart(controller: Dispatcher.DispatchController): void {
    if (this.#phase === "done") return controller.abort(abortReason);
    this.#plan.upstream.done(this);
    this.#member?.ejection.succeeded();
    this.#phase = "sent";
    this.#controller = controller;
  }

  onResponseStarted(): void {
    this.#answered = true;
  }

  onResponseStart(
    controller: Dispatcher.DispatchController,
    status: number,
    headers: Readonly<Record<string, string | string[] | undefined>>,
  ): void {
    if (this.#phase === "done") return;
    const { method } = this.#outgoing;
    // For HTTP/1.1, undici passes raw fields as an array of Buffers.
    const raw = controller.rawHeaders as Buffer[];
    const fields = responseFields(raw, { method, status, headers }, this.#plan.answerRules);
    if (status < 200) return fields && this.#x.informational(status, fields);
    this.#outgoing.span?.set({ "http.response.status_code": status });
    if (fields === undefined) {
      this.#refuse("broken");
      return controller.abort(abortReason);
    }
    this.#status = status;
    this.#phase = "answering";
    this.#opening = true;
    this.#x
      .stream(status, fields)
      .then((sink) => this.#opened(sink, controller))
      .catch((error: unknown) => this.#notOpened(error, controller));
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (this.#sink !== undefined) {
      if (!this.#sink.write(chunk)) this.#pause(this.#sink, controller);
      return;
    }
    (this.#early ??= []).push(chunk);
    this.#earlyBytes += chunk.length;
    if (this.#earlyBytes >= maxEarlyBytes) controller.pause();
  }

  onResponseEnd(controller: Dispatcher.DispatchController): void {
    // Raw trailers have the same form as raw headers.
    this.#trailers = trailerFields(controller.rawTrailers as Buffer[] | undefined);
    this.#ended = true;
    if (this.#sink !== undefined) this.#end(this.#sink);
  }

  onResponseError(_: Dispatcher.DispatchController | null, error: Error): void {
    if (this.#phase === "done") return;
    if (error instanceof UploadError) return this.#uploadFailed(error);
    const code = "code" in error ? error.code : undefined;
    const timedOut = code === "UND_ERR_HEADERS_TIMEOUT" || code === "UND_ERR_BODY_TIMEOUT";
    if (this.#phase === "answering") this.#cut(timedOut ? "timedOut" : "broken");
    else if (this.#phase === "sent") {
      if (this.#isStale(error, code)) this.#again();
      else this.#refuse(timedOut ? "timedOut" : "broken");
    } else if (code === "UND_ERR_INVALID_ARG" || code === "UND_ERR_NOT_SUPPORTED") {
      this.#finish(
        "invalid",
        refuse("GATEWAY_INVALID_PARAMS", { message: "the request cannot be forwarded" }),
      );
    } else this.#unreachable();
  }

  // Events of the client's side:

  #opened(sink: Sink, controller: Dispatcher.DispatchController): void {
    this.#opening = false;
    if (this.#phase === "done") {
      // The upstream failed, or the client left, while the response hooks were running.
      sink.fail(this.#failure);
      return this.#resolve(undefined);
    }
    this.#sink = sink;
    let room = true;
    for (const chunk of this.#early ?? []) room = sink.write(chunk);
    this.#early = undefined;
    if (this.#ended) this.#end(sink);
    else if (room) controller.resume();
    else this.#pause(sink, controller);
  }

  #pause(sink: Sink, controller: Dispatcher.DispatchController): void {
    controller.pause();
    sink.onDrain ??= () => controller.resume();
  }

  #notOpened(error: unknown, controller: Dispatcher.DispatchController): void {
    this.#finish("internal");
    controller.abort(abortReason);
    this.#reject(error);
  }

  #end(sink: Sink): void {
    this.#phase = "done";
    this.#x.onAbort = undefined;
    // In a client span, every status from 400 is an error (OpenTelemetry's conventions for HTTP).
    this.#outgoing.span?.end(this.#status < 400 ? undefined : String(this.#status));
    sink.end(this.#trailers).then(() => this.#resolve(undefined), this.#reject);
  }

  /** The client has left. */
  aborted(): void {
    this.#sink?.fail("upstreamFailed");
    this.#finish("clientLeft");
    this.#controller?.abort(abortReason);
  }

  // Failures:

  /** Called when there was no connection in time: all are in use, or none can be made. */
  expired(): void {
    this.#unreachable();
  }

  #unreachable(): void {
    const { upstream } = this.#plan;
    const member = this.#member;
    if (member?.pool.stats.connected === 0 && member.ejection.failed()) member.ejection.eject();
    if (this.#count < upstream.members.length) this.#again();
    else this.#refuse("unreachable");
  }

  /** Returns true if a repeatable request was sent on a kept-alive connection that was already closed. */
  #isStale(error: Error, code: unknown): boolean {
    const { method, body } = this.#outgoing;
    if (this.#answered || body !== null || (method !== "GET" && method !== "HEAD")) return false;
    if (this.#count > this.#plan.upstream.members.length) return false;
    if (code === "ECONNRESET" || code === "EPIPE") return true;
    return code === "UND_ERR_SOCKET" && "socket" in error && servedBefore(error.socket);
  }

  #again(): void {
    this.#phase = "done";
    this.#plan.upstream.done(this);
    const count = this.#count + 1;
    new Attempt(this.#x, this.#plan, this.#outgoing, count, this.#resolve, this.#reject).begin();
  }

  #uploadFailed(error: UploadError): void {
    if (this.#phase === "answering") return this.#cut("broken");
    const tooLarge = error.reason === "tooLarge";
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
    if (!this.#opening) this.#resolve(reply);
  }
}

/** Returns true if the connection has received bytes before. undici's socket errors contain that number. */
function servedBefore(socket: unknown): boolean {
  return (
    typeof socket === "object" &&
    socket !== null &&
    "bytesRead" in socket &&
    typeof socket.bytesRead === "number" &&
    socket.bytesRead > 0
  );
}
