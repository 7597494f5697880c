/**
 * One attempt to forward a request to an upstream and its answer to the client. It connects the upstream's client with
 * the socket of the gateway's client, without a stream object for the answer.
 *
 * A request is sent again only if it cannot have been processed twice: to another URL if it got no connection, and by
 * the HTTP client if a kept connection turned out to be closed (`Repeat`).
 */
import { refuse } from "../../errors.ts";
import type { ChildSpan, Counter, Exchange, Reply, Sink } from "../../plugin.ts";
import { responseFields, trailerFields, type FieldRules } from "../headers.ts";
import type { Http1Carrier, Repeat, UpstreamExchange, UpstreamFailure } from "./http1/exchange.ts";
import type { ResponseHead } from "./http1/response-head.ts";
import { Upload, type UploadFailure } from "./upload.ts";
import type { Member, UpstreamPools } from "./upstream.ts";

export type FailureReason = "unreachable" | "timedOut" | "broken";

/** The shared parts of all requests of a forwarder. */
export interface ForwardPlan {
  readonly upstream: UpstreamPools;
  readonly answerRules: FieldRules;
  /** True if the operator has configured the Host of requests. */
  readonly setsHost: boolean;
  readonly failures: Readonly<Record<FailureReason, Counter>>;
}

/** A request to an upstream, for all of its attempts. */
export interface Outgoing {
  readonly method: string;
  /** Path and query. The path of the upstream's URL is prepended. */
  readonly target: string;
  /** The lines of the fields, each with its CRLF, without Host and framing. */
  readonly fields: string;
  readonly body: Buffer | Upload | null;
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

/** Methods whose requests announce their length even if they have no content (RFC 9110 section 8.6). */
const contentMethods = new Set(["POST", "PUT", "PATCH", "QUERY", "PROPFIND", "PROPPATCH"]);

/** One exchange with an upstream. The next URL gets another attempt. */
class Attempt implements UpstreamExchange {
  head = "";
  readonly repeat: Repeat;
  readonly answerMs: number;
  readonly #x: Exchange;
  readonly #plan: ForwardPlan;
  readonly #outgoing: Outgoing;
  readonly #count: number;
  readonly #result: Ended;
  readonly #upload: Upload | undefined;
  #member: Member | undefined;
  #carrier: Http1Carrier | undefined;
  #hasEnded = false;
  #status = 0;
  #sink: Sink | undefined;
  /** True while `x.stream` is pending, so that its hooks may still be running. */
  #opening = false;
  #failure: "upstreamFailed" | "timedOut" = "upstreamFailed";
  /** The part of the answer that arrived before the sink was open. */
  #early: Buffer[] = [];
  #earlyBytes = 0;
  #isAnswerComplete = false;
  #trailers: string[] | undefined;

  constructor(x: Exchange, plan: ForwardPlan, outgoing: Outgoing, count: number, result: Ended) {
    const { method, body } = outgoing;
    const isSafe = body === null && (method === "GET" || method === "HEAD");
    this.repeat = isSafe ? "ifUnanswered" : "ifUnwritten";
    this.answerMs = plan.upstream.headersMs;
    this.#upload = body instanceof Upload ? body : undefined;
    this.#x = x;
    this.#plan = plan;
    this.#outgoing = outgoing;
    this.#count = count;
    this.#result = result;
  }

  begin(): void {
    const member = this.#plan.upstream.next();
    if (member === undefined) return this.#refuse("unreachable");
    this.#member = member;
    const { method, target, fields } = this.#outgoing;
    const host = this.#plan.setsHost ? "" : `host: ${member.url.host}\r\n`;
    this.head = `${method} ${member.basePath}${target} HTTP/1.1\r\n${host}${fields}`;
    this.#x.onAbort = this;
    if (this.#upload !== undefined) this.#upload.onFailure = (reason) => this.#uploadFailed(reason);
    member.client.send(this);
  }

  // Callbacks of the upstream's client:

  onStart(carrier: Http1Carrier): void {
    this.#carrier = carrier;
  }

  /** Called when there is a connection, so the upstream can be reached. */
  body(): string | Buffer | Upload | null {
    this.#member?.ejection.succeeded();
    const { body, method } = this.#outgoing;
    return body === null && contentMethods.has(method) ? "" : body;
  }

  onInterim(head: ResponseHead): void {
    // The gateway itself answers `Expect`, so no upstream has a reason to send 100.
    if (head.status === 100) this.#refuse("broken");
    else this.#x.informational(head.status, this.#fieldsOf(head));
  }

  onHead(head: ResponseHead): void {
    const { status } = head;
    this.#outgoing.span?.set({ "http.response.status_code": status });
    this.#status = status;
    this.#opening = true;
    this.#x
      .stream(status, this.#fieldsOf(head))
      .then((sink) => this.#opened(sink))
      .catch((error: unknown) => this.#notOpened(error));
  }

  onData(bytes: Buffer, start: number, end: number): void {
    const chunk = Buffer.from(bytes.subarray(start, end));
    if (this.#sink !== undefined) {
      if (!this.#sink.write(chunk)) this.#pause(this.#sink);
      return;
    }
    this.#early.push(chunk);
    this.#earlyBytes += chunk.length;
    if (this.#earlyBytes >= maxEarlyBytes) this.#carrier?.pause();
  }

  onRead(): void {}

  onEnd(trailers: readonly string[]): void {
    this.#carrier = undefined;
    this.#upload?.close();
    this.#trailers = trailerFields(trailers);
    this.#isAnswerComplete = true;
    if (this.#sink !== undefined) this.#end(this.#sink);
  }

  onError(failure: UpstreamFailure): void {
    this.#carrier = undefined;
    if (failure === "refused" || failure === "connectTimeout") return this.#unreachable(true);
    if (failure === "saturated") return this.#unreachable(false);
    const timedOut = failure === "answerTimeout" || failure === "idleTimeout";
    if (this.#status > 0) this.#cut(timedOut ? "timedOut" : "broken");
    else this.#refuse(timedOut ? "timedOut" : "broken");
  }

  #fieldsOf({ status, fields, connection, length }: ResponseHead): string[] {
    const { method } = this.#outgoing;
    const head = { method, status, connection, hasLength: length >= 0 };
    return responseFields(fields, head, this.#plan.answerRules);
  }

  // Events of the client's side:

  #opened(sink: Sink): void {
    this.#opening = false;
    if (this.#hasEnded) {
      // The upstream failed, or the client left, while the response hooks were running.
      sink.fail(this.#failure);
      return this.#result.resolve(undefined);
    }
    this.#sink = sink;
    let room = true;
    for (const chunk of this.#early) room = sink.write(chunk);
    this.#early = [];
    if (this.#isAnswerComplete) this.#end(sink);
    else if (room) this.#carrier?.resume();
    else this.#pause(sink);
  }

  #pause(sink: Sink): void {
    this.#carrier?.pause();
    sink.onDrain ??= () => this.#carrier?.resume();
  }

  #notOpened(error: unknown): void {
    this.#finish("internal");
    this.#result.reject(error);
  }

  #end(sink: Sink): void {
    this.#hasEnded = true;
    this.#x.onAbort = undefined;
    // In a client span, every status from 400 is an error (OpenTelemetry's conventions for HTTP).
    this.#outgoing.span?.end(this.#status < 400 ? undefined : String(this.#status));
    sink.end(this.#trailers).then(() => this.#result.resolve(undefined), this.#result.reject);
  }

  /** The client has left. */
  aborted(): void {
    this.#sink?.fail("upstreamFailed");
    this.#finish("clientLeft");
  }

  #uploadFailed(reason: UploadFailure): void {
    if (this.#status > 0) return this.#cut("broken");
    const tooLarge = reason === "tooLarge";
    this.#finish(
      reason,
      refuse("GATEWAY_INVALID_PARAMS", {
        status: tooLarge ? 413 : 400,
        message: tooLarge ? "the body is too large" : "the body is incomplete",
      }),
    );
  }

  // Failures:

  /** There was no connection in time. `isFailure`: none could be made; otherwise all were in use. */
  #unreachable(isFailure: boolean): void {
    const { upstream } = this.#plan;
    const member = this.#member;
    if (isFailure && member?.client.isConnected === false && member.ejection.failed()) {
      member.ejection.eject();
    }
    if (this.#count >= upstream.members.length) return this.#refuse("unreachable");
    this.#hasEnded = true;
    new Attempt(this.#x, this.#plan, this.#outgoing, this.#count + 1, this.#result).begin();
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
    this.#hasEnded = true;
    this.#outgoing.span?.end(error);
    this.#x.onAbort = undefined;
    this.#upload?.close();
    this.#carrier?.abort();
    this.#carrier = undefined;
    if (!this.#opening) this.#result.resolve(reply);
  }
}
