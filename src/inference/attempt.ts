/**
 * One request to one worker: undici's dispatcher on one side, the reader on the other, no stream object between them
 * unless the worker coded its answer, which it was asked not to.
 */
import type { Dispatcher } from "undici";
import type { Call } from "./call.ts";
import { createDecoder, type BodyDecoder } from "./content-coding.ts";
import type { Worker } from "./worker.ts";

/** Given to undici where it wants a reason to abort: nobody sees it. */
const abandoned = new Error("abandoned");

/** A refusal's body is read up to here, so that the connection can be used again. */
const refusalBytes = 64 * 1024;

export class Attempt implements Dispatcher.DispatchHandler {
  readonly worker: Worker;
  readonly #call: Call;
  #controller: Dispatcher.DispatchController | undefined;
  #decoder: BodyDecoder | undefined;
  /** `refused`: only the rest of a refusal is read. `done`: nothing is told any more. */
  #state: "connecting" | "sent" | "answering" | "refused" | "done" = "connecting";
  #refusedBytes = 0;

  constructor(call: Call, worker: Worker) {
    this.#call = call;
    this.worker = worker;
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
    if (status !== 200) return this.#refused(status);
    const coding = String(headers["content-encoding"] ?? "identity").toLowerCase();
    if (coding !== "identity") {
      this.#decoder = createDecoder(coding, {
        data: (chunk) => this.#data(chunk),
        ended: () => this.#ended(),
        broken: () => this.#broken(),
        full: () => controller.pause(),
        drained: () => controller.resume(),
      });
      if (this.#decoder === undefined) return this.#broken();
    }
    this.#state = "answering";
    const type = String(headers["content-type"] ?? "").toLowerCase();
    this.#call.started(this.worker, type.startsWith("text/event-stream"));
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (this.#state === "refused") {
      this.#refusedBytes += chunk.length;
      if (this.#refusedBytes > refusalBytes) controller.abort(abandoned);
    } else if (this.#decoder !== undefined) this.#decoder.write(chunk);
    else this.#data(chunk);
  }

  onResponseEnd(): void {
    if (this.#decoder === undefined) this.#ended();
    else this.#decoder.end();
  }

  onResponseError(_: Dispatcher.DispatchController | null, error: Error): void {
    if (this.#state === "done" || this.#state === "refused") return;
    const code = "code" in error ? error.code : undefined;
    const timedOut = code === "UND_ERR_HEADERS_TIMEOUT" || code === "UND_ERR_BODY_TIMEOUT";
    const kind = this.#state === "connecting" ? "unreachable" : timedOut ? "timedOut" : "broken";
    this.#end();
    this.#call.failed(this.worker, { kind });
  }

  #data(chunk: Buffer): void {
    if (this.#state === "answering") this.#call.data(chunk);
  }

  #ended(): void {
    if (this.#state !== "answering") return;
    this.#end();
    this.#call.ended(this.worker);
  }

  #refused(status: number): void {
    this.#end();
    this.#state = "refused";
    this.#call.failed(this.worker, { kind: "refused", status });
  }

  #broken(): void {
    if (this.#state === "done") return;
    this.abandon();
    this.#call.failed(this.worker, { kind: "broken" });
  }

  #end(): void {
    if (this.#state === "done" || this.#state === "refused") return;
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
