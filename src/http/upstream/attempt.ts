/**
 * One request on its way to an upstream and the answer on its way back: undici's dispatcher on one side, the client's
 * socket on the other, no stream object between them on the way down.
 *
 * Deadlines: waiting for a connection (`connectMs`) is on the host's clock, because undici has none for requests that
 * queue; `headersMs` and `idleMs` are undici's own timers, refreshed without cost and up to a second late. An upstream
 * that falls silent is cut; a client that reads slowly is not the upstream's fault.
 *
 * A request is sent again only where it cannot have been acted on twice: no connection was made (then on another url),
 * or a GET or HEAD without body met a kept-alive connection that its server had closed meanwhile (RFC 9110 section
 * 9.2.2).
 */
import type { Dispatcher } from "undici";
import { refuse } from "../../errors.ts";
import type { ChildSpan, Counter, Exchange, Reply, Sink } from "../../plugin.ts";
import { responseFields, trailerFields, type FieldRules } from "../headers.ts";
import { UploadError, type Upload } from "./upload.ts";
import type { Member, UpstreamPools, Waiting } from "./upstream.ts";

export type FailureReason = "unreachable" | "timedOut" | "broken";

/** What all requests of a forwarder share. */
export interface ForwardPlan {
  readonly upstream: UpstreamPools;
  readonly answerRules: FieldRules;
  readonly failures: Readonly<Record<FailureReason, Counter>>;
}

/** A request as it is sent, on whichever connection. */
export interface Outgoing {
  readonly method: string;
  /** Path and query; the url's own path comes before it. */
  readonly target: string;
  readonly headers: string[];
  /** A streamed one is made for each attempt: undici destroys what it was given, however late. */
  readonly body: Buffer | (() => Upload) | null;
  /** Covers all attempts; ended here. */
  readonly span: ChildSpan | undefined;
}

type Resolve = (reply: Reply | undefined) => void;

/** Resolves to a Reply when nothing was sent to the client, to undefined when its answer has ended, however. */
export function send(
  x: Exchange,
  plan: ForwardPlan,
  outgoing: Outgoing,
): Promise<Reply | undefined> {
  return new Promise((resolve, reject) => {
    new Attempt(x, plan, outgoing, 1, resolve, reject).begin();
  });
}

/** Given to undici where it wants a reason to abort: nobody sees it. */
const abandoned = new Error("abandoned");

/** What arrives before the client's side is open is kept up to here, then the upstream is paused. */
const earlyBytes = 64 * 1024;

/** One dispatch of a request: undici's handler. A second dispatch is another attempt. */
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
  /** The first byte of an answer has arrived. */
  #answered = false;
  #sink: Sink | undefined;
  /** `x.stream` has been called and its hooks may still be running. */
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

  // What undici reports:

  onRequestStart(controller: Dispatcher.DispatchController): void {
    if (this.#phase === "done") return controller.abort(abandoned);
    this.#plan.upstream.done(this);
    if (this.#member !== undefined) this.#plan.upstream.reached(this.#member);
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
    // undici hands HTTP/1.1 fields over as the parser cut them: an array of Buffers.
    const raw = controller.rawHeaders as Buffer[];
    const fields = responseFields(raw, { method, status, headers }, this.#plan.answerRules);
    if (status < 200) return fields && this.#x.informational(status, fields);
    this.#outgoing.span?.set({ "http.response.status_code": status });
    if (fields === undefined) {
      this.#refuse("broken");
      return controller.abort(abandoned);
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
    if (this.#earlyBytes >= earlyBytes) controller.pause();
  }

  onResponseEnd(controller: Dispatcher.DispatchController): void {
    // As rawHeaders.
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

  // What the client's side reports:

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
    controller.abort(abandoned);
    this.#reject(error);
  }

  #end(sink: Sink): void {
    this.#phase = "done";
    this.#x.onAbort = undefined;
    // For a client every status from 400 on is an error (OpenTelemetry's conventions for HTTP).
    this.#outgoing.span?.end(this.#status < 400 ? undefined : String(this.#status));
    sink.end(this.#trailers).then(() => this.#resolve(undefined), this.#reject);
  }

  /** The client has left. */
  aborted(): void {
    this.#sink?.fail("upstreamFailed");
    this.#finish("clientLeft");
    this.#controller?.abort(abandoned);
  }

  // How it fails:

  /** No connection in time: every one is taken, or none can be made. */
  expired(): void {
    this.#unreachable();
  }

  #unreachable(): void {
    const { upstream } = this.#plan;
    if (this.#member?.pool.stats.connected === 0) upstream.rest(this.#member);
    if (this.#count < upstream.members.length) this.#again();
    else this.#refuse("unreachable");
  }

  /** Whether a kept-alive connection turned out to be closed when a request that may be repeated was sent on it. */
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
        message: tooLarge ? "the body is too large" : "the body broke off",
      }),
    );
  }

  #refuse(reason: FailureReason): void {
    this.#plan.failures[reason].add(1);
    this.#finish(reason, refuse("GATEWAY_SERVICE_UNAVAILABLE"));
  }

  /** The head has gone, or is about to: only a cut connection tells the client that the rest is missing. */
  #cut(reason: FailureReason): void {
    this.#plan.failures[reason].add(1);
    if (reason === "timedOut") this.#failure = "timedOut";
    this.#sink?.fail(this.#failure);
    this.#finish(reason);
  }

  /** Ends it without an answer, or in the middle of one. `error`: why, for the span. */
  #finish(error: string, reply?: Reply): void {
    this.#phase = "done";
    this.#outgoing.span?.end(error);
    this.#plan.upstream.done(this);
    this.#x.onAbort = undefined;
    this.#upload?.destroy();
    if (!this.#opening) this.#resolve(reply);
  }
}

/** undici tells with its socket errors how much the connection had carried. */
function servedBefore(socket: unknown): boolean {
  return (
    typeof socket === "object" &&
    socket !== null &&
    "bytesRead" in socket &&
    typeof socket.bytesRead === "number" &&
    socket.bytesRead > 0
  );
}
