/** One HTTP request to one worker, and the answer that is parsed from the response. */
import type { ResponseHead } from "sluice-gateway/http";
import type {
  AttemptedCall,
  AttemptedWorker,
  AttemptFailure,
  Produced,
  RunningAttempt,
  TokenUsage,
  TransportFailure,
  WholeMessage,
} from "sluice-gateway/services";
import { runGuarded } from "sluice-gateway/toolkit";
import {
  StreamedAnswer,
  WholeAnswer,
  type WorkerAnswer,
  type AnswerSink,
} from "./worker-answer.ts";
import type { HttpExchange, WorkerConnection } from "./worker-connection.ts";
import { createDecoder, type BodyDecoder } from "./content-coding.ts";
import type { WorkerServer } from "./worker-server.ts";

/**
 * Maximum number of bytes to read of an unneeded body (of a refusal, or after `[DONE]`), so that the connection can be
 * used again.
 */
const maxSurplusBytes = 64 * 1024;

/** The server and the request head of the worker. */
interface HttpRoute {
  readonly server: WorkerServer;
  /** Request line and all header fields except host, length and those of the single request. */
  readonly head: string;
}

export class HttpAttempt implements RunningAttempt, HttpExchange, AnswerSink {
  readonly worker: AttemptedWorker;
  readonly head: string;
  readonly firstMs: number;
  readonly #call: AttemptedCall;
  readonly #route: HttpRoute;
  readonly #answer: WorkerAnswer;
  #connection: WorkerConnection | undefined;
  #decoder: BodyDecoder | undefined;
  /** True once the call is not notified any more. */
  #hasEnded = false;
  #surplusBytes = 0;
  #answered = false;

  constructor(call: AttemptedCall, worker: AttemptedWorker, route: HttpRoute) {
    const { request, network } = call;
    const { config } = network;
    this.#call = call;
    this.#route = route;
    this.worker = worker;
    this.head = route.head + fields(request.headers);
    this.firstMs = request.streamed ? config.idleMs : config.answerMs;
    this.#answer = request.streamed ? new StreamedAnswer(this) : new WholeAnswer(this);
  }

  begin(): void {
    this.worker.inFlight++;
    this.#route.server.send(this);
  }

  get requestBody(): Buffer {
    return this.#call.request.body;
  }

  get reported(): TokenUsage | undefined {
    return this.#answer.reported;
  }

  get produced(): Produced {
    return this.#answer.produced;
  }

  get hasRequest(): boolean {
    return this.#answered || this.#connection?.hasSent === true;
  }

  get finishReason(): string | undefined {
    return this.#answer.finishReason;
  }

  pause(): void {
    if (this.#hasEnded) return;
    if (this.#decoder === undefined) this.#connection?.pause();
    // The decoder pauses the connection when its buffer is full.
    else this.#decoder.pause();
  }

  resume(): void {
    if (this.#hasEnded) return;
    if (this.#decoder === undefined) this.#connection?.resume();
    else this.#decoder.resume();
  }

  /**
   * HTTP can only end an answer by cutting the connection, and then no usage is reported. So the answer is read to its
   * end.
   */
  wrapUp(): void {
    this.resume();
  }

  /** Cuts the connection. */
  abandon(): void {
    if (this.#hasEnded) return;
    this.#end();
    this.#connection?.cut();
  }

  // Callbacks of the connection.

  carriedBy(connection: WorkerConnection): void {
    this.#connection = connection;
  }

  answers({ status, coding }: ResponseHead): void {
    this.#answered = true;
    if (status !== 200) return this.#fail({ kind: "refused", status });
    if (coding === undefined || coding === "identity") return;
    this.#decoder = createDecoder(coding, {
      data: (chunk) =>
        this.#contain(() => {
          this.#answer.write(chunk, 0, chunk.length);
          this.arrived();
        }),
      ended: () => this.#contain(() => this.#answer.end()),
      broken: () => this.broken(),
      full: () => this.#connection?.pause(),
      drained: () => this.#connection?.resume(),
    });
    if (this.#decoder === undefined) this.broken();
  }

  body(bytes: Buffer, start: number, end: number): void {
    if (this.#hasEnded) {
      this.#surplusBytes += end - start;
      if (this.#surplusBytes > maxSurplusBytes) this.#connection?.cut();
    } else if (this.#decoder === undefined) this.#answer.write(bytes, start, end);
    // The decoder works in a separate thread, and the bytes are borrowed.
    else this.#decoder.write(Buffer.from(bytes.subarray(start, end)));
  }

  arrived(): void {
    if (!this.#hasEnded) this.#call.arrived();
  }

  done(): void {
    // The connection may already carry another request.
    this.#connection = undefined;
    if (this.#hasEnded) return;
    if (this.#decoder === undefined) this.#answer.end();
    else this.#decoder.end();
  }

  failed(kind: TransportFailure): void {
    this.#fail({ kind });
  }

  // Callbacks of the parsed answer.

  choice(bytes: Buffer, start: number, end: number): void {
    if (!this.#hasEnded) this.#call.choice(bytes, start, end);
  }

  complete(message: WholeMessage | undefined): void {
    this.arrived();
    if (this.#hasEnded) return;
    this.#end();
    this.worker.succeeded();
    this.#call.complete(message);
  }

  broken(): void {
    if (this.#hasEnded) return;
    const connection = this.#connection;
    this.#fail({ kind: "broken" });
    connection?.cut();
  }

  /** Runs a callback of the decoder. An error in it breaks this answer only. */
  #contain(read: () => void): void {
    runGuarded(read, (error) => {
      this.#call.network.parts.log.error({ err: error }, "an answer could not be read");
      this.broken();
    });
  }

  #fail(failure: AttemptFailure): void {
    this.arrived();
    if (this.#hasEnded) return;
    this.#end();
    this.#call.failed(this.worker, failure);
  }

  /** Ends the attempt. The connection may read the rest of the answer without a listener. */
  #end(): void {
    this.#hasEnded = true;
    this.worker.inFlight--;
    this.#decoder?.close();
    // Nothing else would resume a connection that was paused in the middle of an answer.
    this.#connection?.resume();
  }
}

/**
 * Returns a flat list of name, value … as header lines. The values have been checked by the code that built the list.
 */
function fields(flat: readonly string[] | undefined): string {
  if (flat === undefined) return "";
  let lines = "";
  for (let at = 0; at + 1 < flat.length; at += 2) lines += `${flat[at]}: ${flat[at + 1]}\r\n`;
  return lines;
}
