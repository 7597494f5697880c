/**
 * One request to one worker: undici's dispatcher on one side, the answer as it is understood on the other, no stream
 * object between them unless the worker coded its answer, which it was asked not to.
 */
import type { Dispatcher } from "undici";
import type { TokenUsage, WholeMessage } from "../services/networks.ts";
import { StreamedAnswer, WholeAnswer, type Answer, type AnswerSink } from "./answer.ts";
import type { Call } from "./call.ts";
import { createDecoder, type BodyDecoder } from "./content-coding.ts";
import type { Worker } from "./worker.ts";

/** How an attempt failed. `unreachable`: no connection. `refused`: the worker's own status. */
export type AttemptFailure =
  | { readonly kind: "unreachable" | "broken" | "timedOut" }
  | { readonly kind: "refused"; readonly status: number };

/** Given to undici where it wants a reason to abort: nobody sees it. */
const abandoned = new Error("abandoned");

/** What nobody needs of a body (a refusal's, or after `[DONE]`) is read up to here, so that the connection can be used again. */
const restBytes = 64 * 1024;

export class Attempt implements Dispatcher.DispatchHandler, AnswerSink {
  readonly worker: Worker;
  readonly #call: Call;
  readonly #answer: Answer;
  #controller: Dispatcher.DispatchController | undefined;
  #decoder: BodyDecoder | undefined;
  /** `done`: nothing is told any more. */
  #state: "connecting" | "sent" | "answering" | "done" = "connecting";
  #restBytes = 0;

  constructor(call: Call, worker: Worker) {
    this.#call = call;
    this.worker = worker;
    const { streamed, promptChars } = call.request;
    this.#answer = streamed
      ? new StreamedAnswer(this, promptChars)
      : new WholeAnswer(this, promptChars);
  }

  /** Of what has come. */
  get usage(): TokenUsage {
    return this.#answer.usage();
  }

  get finishReason(): string | undefined {
    return this.#answer.finishReason;
  }

  begin(): void {
    const { request, network } = this.#call;
    const { config } = network;
    this.worker.inFlight++;
    this.worker.pool.dispatch(
      {
        method: "POST",
        path: `${this.worker.basePath}/v1/chat/completions`,
        headers: headersOf(config.headers, request.headers),
        body: request.body,
        headersTimeout: request.streamed ? config.idleMs : config.answerMs,
        bodyTimeout: config.idleMs,
      },
      this,
    );
  }

  pause(): void {
    this.#controller?.pause();
  }

  resume(): void {
    this.#controller?.resume();
  }

  /** Cuts the connection. */
  abandon(): void {
    this.#end();
    this.#controller?.abort(abandoned);
  }

  // ── what undici reports ───────────────────────────────────────────────────────────────────────────────────────

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller;
    if (this.#state === "done") controller.abort(abandoned);
    else this.#state = "sent";
  }

  onResponseStart(
    controller: Dispatcher.DispatchController,
    status: number,
    headers: Readonly<Record<string, string | string[] | undefined>>,
  ): void {
    if (this.#state === "done" || status < 200) return;
    if (status !== 200) return this.#fail({ kind: "refused", status });
    const coding = String(headers["content-encoding"] ?? "identity").toLowerCase();
    this.#state = "answering";
    if (coding === "identity") return;
    this.#decoder = createDecoder(coding, {
      data: (chunk) => this.#answer.write(chunk),
      ended: () => this.#answer.end(),
      broken: () => this.broken(),
      full: () => controller.pause(),
      drained: () => controller.resume(),
    });
    if (this.#decoder === undefined) this.broken();
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (this.#state === "done") {
      this.#restBytes += chunk.length;
      if (this.#restBytes > restBytes) controller.abort(abandoned);
    } else if (this.#decoder === undefined) this.#answer.write(chunk);
    else this.#decoder.write(chunk);
  }

  onResponseEnd(): void {
    if (this.#state === "done") return;
    if (this.#decoder === undefined) this.#answer.end();
    else this.#decoder.end();
  }

  onResponseError(_: Dispatcher.DispatchController | null, error: Error): void {
    const code = "code" in error ? error.code : undefined;
    const timedOut = code === "UND_ERR_HEADERS_TIMEOUT" || code === "UND_ERR_BODY_TIMEOUT";
    const unreachable = this.#state === "connecting";
    this.#fail({ kind: unreachable ? "unreachable" : timedOut ? "timedOut" : "broken" });
  }

  // ── what the answer turns out to be ───────────────────────────────────────────────────────────────────────────

  choice(bytes: Buffer, start: number, end: number): void {
    if (this.#state !== "done") this.#call.choice(bytes, start, end);
  }

  arrived(): void {
    if (this.#state !== "done") this.#call.arrived();
  }

  complete(message: WholeMessage | undefined): void {
    if (this.#state === "done") return;
    this.#end();
    this.worker.succeeded();
    this.#call.complete(message);
  }

  broken(): void {
    this.#fail({ kind: "broken" });
    this.#controller?.abort(abandoned);
  }

  #fail(failure: AttemptFailure): void {
    if (this.#state === "done") return;
    this.#end();
    this.#call.failed(this.worker, failure);
  }

  /** The connection may go on to its answer's end without anybody listening. */
  #end(): void {
    if (this.#state === "done") return;
    this.#state = "done";
    this.worker.inFlight--;
    this.#decoder?.close();
  }
}

const fixedHeaders: readonly string[] = [
  "content-type",
  "application/json",
  "accept",
  "text/event-stream, application/json",
  // Coded tokens would have to wait for each other.
  "accept-encoding",
  "identity",
];

function headersOf(
  configured: Readonly<Record<string, string>>,
  further: readonly string[] | undefined,
): string[] {
  const headers = [...fixedHeaders];
  for (const [name, value] of Object.entries(configured)) headers.push(name, value);
  if (further !== undefined) headers.push(...further);
  return headers;
}
