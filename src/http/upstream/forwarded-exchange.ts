/**
 * Connects the upstream's client with the socket of the gateway's client, without a stream object for the answer.
 *
 * A request is sent again only if it cannot have been processed twice: to another URL if it got no connection, and on
 * another connection if it is a GET or HEAD without content and its kept connection turned out to be closed.
 */
import { refuse } from "../../base/errors.ts";
import type { ChildSpan, Exchange, Reply, Sink, UpstreamFailure } from "../../plugin.ts";
import { responseFields, trailerFields, type FieldRules } from "../../message/headers.ts";
import type {
  Http1Carrier,
  RetryPolicy,
  StreamedBody,
  UpstreamExchange,
} from "./http1/exchange.ts";
import type { ResponseHead } from "./http1/response-head.ts";
import type { Member, UpstreamPools } from "./upstream.ts";

export interface ForwardPlan {
  readonly upstream: UpstreamPools;
  readonly answerRules: FieldRules;
  /** True if the operator has configured the Host of requests. */
  readonly setsHost: boolean;
  readonly countFailure: (failure: UpstreamFailure) => void;
}

export interface ForwardedRequest {
  readonly method: string;
  /** Path and query. The path of the upstream's URL is prepended. */
  readonly target: string;
  /** The lines of the fields, each with its CRLF, without Host and framing. */
  readonly fields: string;
  readonly body: Buffer | Omit<StreamedBody, "onError"> | null;
  /** The span of all attempts, which ends here. */
  readonly span: ChildSpan | undefined;
}

/** Resolves to a Reply if nothing was sent to the client, or to undefined when the answer has ended or failed. */
export function send(
  x: Exchange,
  plan: ForwardPlan,
  outgoing: ForwardedRequest,
): Promise<Reply | undefined> {
  const exchange = new ForwardedExchange(x, plan, outgoing);
  exchange.begin();
  return exchange.result.promise;
}

/** `error.type` of the span. Other failures are `broken`. */
const spanErrors: Partial<Record<UpstreamFailure["kind"], string>> = {
  refused: "unreachable",
  connectTimeout: "unreachable",
  saturated: "unreachable",
  answerTimeout: "timedOut",
  idleTimeout: "timedOut",
};

/** Maximum number of bytes that are buffered before the client's side is open. Then the upstream is paused. */
const maxEarlyBytes = 64 * 1024;

/** Methods whose requests announce their length even if they have no content (RFC 9110 section 8.6). */
const contentMethods = new Set(["POST", "PUT", "PATCH", "QUERY", "PROPFIND", "PROPPATCH"]);

class ForwardedExchange implements UpstreamExchange {
  head = "";
  readonly retryPolicy: RetryPolicy;
  readonly answerMs: number;
  readonly caller: string | undefined;
  readonly result = Promise.withResolvers<Reply | undefined>();
  readonly #x: Exchange;
  readonly #plan: ForwardPlan;
  readonly #request: ForwardedRequest;
  #tries = 0;
  #member: Member | undefined;
  #carrier: Http1Carrier | undefined;
  #hasEnded = false;
  #status = 0;
  #sink: Sink | undefined;
  /** True while `x.stream` is pending, so that its hooks may still be running. */
  #opening = false;
  #failure: "upstreamFailed" | "timedOut" = "upstreamFailed";
  #early: Buffer[] = [];
  #earlyBytes = 0;
  #isAnswerComplete = false;
  #trailers: string[] | undefined;

  constructor(x: Exchange, plan: ForwardPlan, outgoing: ForwardedRequest) {
    const { method, body } = outgoing;
    const isSafe = body === null && (method === "GET" || method === "HEAD");
    // A proxy must not repeat other requests by itself (RFC 9110 section 9.2.2).
    this.retryPolicy = isSafe ? "ifUnanswered" : "failsIfStale";
    this.answerMs = plan.upstream.headersMs;
    this.caller = x.facts.caller?.group;
    this.#x = x;
    this.#plan = plan;
    this.#request = outgoing;
  }

  begin(): void {
    const member = this.#plan.upstream.next();
    if (member === undefined) return this.#fail({ kind: "refused" });
    this.#member = member;
    const { method, target, fields } = this.#request;
    const host = this.#plan.setsHost ? "" : `host: ${member.url.host}\r\n`;
    this.head = `${method} ${member.basePath}${target} HTTP/1.1\r\n${host}${fields}`;
    this.#x.onAbort = this;
    this.#tries++;
    member.client.send(this);
  }

  onStart(carrier: Http1Carrier): void {
    this.#carrier = carrier;
  }

  body(): string | Buffer | StreamedBody | null {
    // There is a connection, so the upstream can be reached.
    this.#member?.ejection.succeeded();
    const { body, method } = this.#request;
    if (body === null) return contentMethods.has(method) ? "" : null;
    if (Buffer.isBuffer(body)) return body;
    return { ...body, onError: (reason) => this.#uploadFailed(reason) };
  }

  onInterim(head: ResponseHead): void {
    // The gateway itself answers `Expect`, so no upstream has a reason to send 100.
    if (head.status === 100) this.#fail({ kind: "garbage", address: this.#member?.url.host });
    else this.#x.informational(head.status, this.#fieldsOf(head));
  }

  onHead(head: ResponseHead): void {
    const { status } = head;
    this.#request.span?.set({ "http.response.status_code": status });
    this.#status = status;
    this.#x.note("backend", this.#member?.url.host);
    const opening = this.#x.stream(status, this.#fieldsOf(head));
    this.#opening = true;
    opening.then((sink) => this.#opened(sink)).catch((error: unknown) => this.#notOpened(error));
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
    this.#trailers = trailerFields(trailers);
    this.#isAnswerComplete = true;
    if (this.#sink !== undefined) this.#end(this.#sink);
  }

  onError(failure: UpstreamFailure): void {
    this.#carrier = undefined;
    const { kind } = failure;
    const isUnreachable = kind === "refused" || kind === "connectTimeout";
    if (isUnreachable || kind === "saturated") this.#tryNext(failure, isUnreachable);
    else this.#fail(failure);
  }

  #fieldsOf({ status, fields, connection, length }: ResponseHead): string[] {
    const { method } = this.#request;
    const head = { method, status, connection, hasLength: length >= 0 };
    return responseFields(fields, head, this.#plan.answerRules);
  }

  #opened(sink: Sink): void {
    this.#opening = false;
    if (this.#hasEnded) {
      // The upstream failed, or the client left, while the response hooks were running.
      sink.fail(this.#failure);
      return this.result.resolve(undefined);
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
    this.result.reject(error);
  }

  #end(sink: Sink): void {
    this.#hasEnded = true;
    this.#x.onAbort = undefined;
    // In a client span, every status from 400 is an error (OpenTelemetry's conventions for HTTP).
    this.#request.span?.end(this.#status < 400 ? undefined : String(this.#status));
    sink.end(this.#trailers).then(() => this.result.resolve(undefined), this.result.reject);
  }

  aborted(): void {
    this.#sink?.fail("upstreamFailed");
    this.#finish("clientLeft");
  }

  #uploadFailed(reason: "tooLarge" | "incomplete"): void {
    if (this.#status > 0) return this.#fail({ kind: "closed", address: this.#member?.url.host });
    const tooLarge = reason === "tooLarge";
    this.#finish(
      tooLarge ? "tooLarge" : "clientLeft",
      refuse("GATEWAY_INVALID_PARAMS", {
        status: tooLarge ? 413 : 400,
        message: tooLarge ? "the body is too large" : "the body is incomplete",
      }),
    );
  }

  /** There was no connection in time. `isUnreachable`: none could be made; otherwise all were in use. */
  #tryNext(failure: UpstreamFailure, isUnreachable: boolean): void {
    const { upstream } = this.#plan;
    const member = this.#member;
    if (isUnreachable && member?.client.isConnected === false && member.ejection.failed()) {
      member.ejection.eject(failure);
    }
    if (this.#tries === upstream.members.length) return this.#fail(failure);
    this.#plan.countFailure(failure);
    this.begin();
  }

  #fail(failure: UpstreamFailure): void {
    this.#plan.countFailure(failure);
    this.#x.note("upstreamFailure", failure);
    const error = spanErrors[failure.kind] ?? "broken";
    if (this.#status === 0) return this.#finish(error, refuse("GATEWAY_SERVICE_UNAVAILABLE"));
    // The head was already sent, so only a closed connection shows the client that the rest is missing.
    if (error === "timedOut") this.#failure = "timedOut";
    this.#sink?.fail(this.#failure);
    this.#finish(error);
  }

  #finish(error: string, reply?: Reply): void {
    this.#hasEnded = true;
    this.#request.span?.end(error);
    this.#x.onAbort = undefined;
    this.#carrier?.abort();
    this.#carrier = undefined;
    if (!this.#opening) this.result.resolve(reply);
  }
}
