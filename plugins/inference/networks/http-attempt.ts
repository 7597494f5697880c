import type {
  Http1Carrier,
  Http1Client,
  ResponseHead,
  UpstreamExchange,
} from "sluice-gateway/internal/http";
import type { UpstreamFailure } from "sluice-gateway/plugin";
import type {
  AttemptedCall,
  AttemptedWorker,
  AttemptFailure,
  PartialAnswer,
  RunningAttempt,
  TokenUsage,
  WholeMessage,
} from "sluice-gateway/services";
import { runGuarded } from "sluice-gateway/internal/toolkit";
import type { WorkerAnswer, AnswerSink } from "./worker-answer.ts";
import { createAnswer, pathOf } from "./worker-apis.ts";
import { createDecoder, type BodyDecoder } from "./content-coding.ts";
import { maxRefusalBytes, readRefusal, retryAfterSeconds } from "./refusal-body.ts";

/**
 * Maximum number of bytes to read of an unneeded body (of a refusal, or after `[DONE]`), so that the connection can be
 * used again.
 */
const maxSurplusBytes = 64 * 1024;

interface HttpRoute {
  readonly client: Http1Client;
  readonly basePath: string;
  /** All header fields except the length and those of the single request. */
  readonly fields: string;
  /** Names of `fields` in lower case. They are not repeated. */
  readonly fieldNames: ReadonlySet<string>;
}

/** An answer with another status than 200. */
interface Refusal {
  readonly status: number;
  readonly retryAfter: string | undefined;
  readonly pieces: Buffer[];
  bytes: number;
}

export class HttpAttempt implements RunningAttempt, UpstreamExchange {
  readonly worker: AttemptedWorker;
  readonly head: string;
  /** A completion that is computed twice costs the worker twice. */
  readonly retryPolicy = "ifUnwritten";
  readonly answerMs: number;
  readonly #call: AttemptedCall;
  readonly #route: HttpRoute;
  readonly #answer: WorkerAnswer;
  #carrier: Http1Carrier | undefined;
  #decoder: BodyDecoder | undefined;
  #hasEnded = false;
  #surplusBytes = 0;
  #answered = false;
  #refusal: Refusal | undefined;

  constructor(call: AttemptedCall, worker: AttemptedWorker, route: HttpRoute) {
    const { request, network } = call;
    const { config } = network;
    this.#call = call;
    this.#route = route;
    this.worker = worker;
    const { api, headers } = request;
    const line = `POST ${route.basePath}${pathOf(api)} HTTP/1.1\r\n`;
    this.head = line + route.fields + fields(headers, route.fieldNames);
    this.answerMs = request.streamed ? config.idleMs : config.answerMs;
    const sink: AnswerSink = {
      onChoice: (bytes, start, end) => {
        if (!this.#hasEnded) call.onChoice(bytes, start, end);
      },
      onEnd: (message, native) => this.#complete(message, native),
      onError: () => this.#break(),
    };
    this.#answer = createAnswer(request, sink);
  }

  begin(): void {
    this.worker.load.add(1);
    this.#route.client.send(this);
  }

  get reported(): TokenUsage | undefined {
    return this.#answer.reported;
  }

  get produced(): PartialAnswer {
    return this.#answer.produced;
  }

  get hasRequest(): boolean {
    return this.#answered || this.#carrier?.hasSent === true;
  }

  get finishReason(): string | undefined {
    return this.#answer.finishReason;
  }

  pause(): void {
    if (this.#hasEnded) return;
    if (this.#decoder === undefined) this.#carrier?.pause();
    // The decoder pauses the connection when its buffer is full.
    else this.#decoder.pause();
  }

  resume(): void {
    if (this.#hasEnded) return;
    if (this.#decoder === undefined) this.#carrier?.resume();
    else this.#decoder.resume();
  }

  /**
   * Over HTTP, an answer can only be ended by closing the connection, which yields no usage. So it is read to its end.
   */
  wrapUp(): void {
    this.resume();
  }

  abort(): void {
    if (this.#hasEnded) return;
    this.#end();
    this.#carrier?.abort();
  }

  onStart(carrier: Http1Carrier): void {
    this.#carrier = carrier;
  }

  body(): Buffer {
    return this.#call.request.body;
  }

  onHead({ status, coding, retryAfter }: ResponseHead): void {
    this.#answered = true;
    if (status !== 200) {
      this.#refusal = { status, retryAfter, pieces: [], bytes: 0 };
      // A compressed body is not read.
      if (coding !== undefined && coding !== "identity") this.#refused(this.#refusal);
      return;
    }
    if (coding === undefined || coding === "identity") return;
    this.#decoder = createDecoder(coding, {
      onData: (chunk) =>
        this.#contain(() => {
          this.#answer.write(chunk, 0, chunk.length);
          this.onRead();
        }),
      onEnd: () => this.#contain(() => this.#answer.end()),
      onError: () => this.#break(),
      onFull: () => this.#carrier?.pause(),
      onDrain: () => this.#carrier?.resume(),
    });
    if (this.#decoder === undefined) this.#break();
  }

  onData(bytes: Buffer, start: number, end: number): void {
    if (this.#hasEnded) {
      this.#surplusBytes += end - start;
      if (this.#surplusBytes > maxSurplusBytes) this.#carrier?.abort();
    } else if (this.#refusal !== undefined) this.#keep(this.#refusal, bytes, start, end);
    else if (this.#decoder === undefined) this.#answer.write(bytes, start, end);
    // The decoder works in a separate thread, and the bytes are borrowed.
    else this.#decoder.write(Buffer.from(bytes.subarray(start, end)));
  }

  onRead(): void {
    if (!this.#hasEnded) this.#call.onRead();
  }

  onEnd(): void {
    // The connection may already carry another request.
    this.#carrier = undefined;
    if (this.#hasEnded) return;
    if (this.#refusal !== undefined) this.#refused(this.#refusal);
    else if (this.#decoder === undefined) this.#answer.end();
    else this.#decoder.end();
  }

  onError(cause: UpstreamFailure): void {
    if (this.#refusal !== undefined) this.#refused(this.#refusal);
    else this.#fail({ cause });
  }

  #keep(refusal: Refusal, bytes: Buffer, start: number, end: number): void {
    refusal.bytes += end - start;
    refusal.pieces.push(Buffer.from(bytes.subarray(start, end)));
    if (refusal.bytes > maxRefusalBytes) this.#refused(refusal);
  }

  /** The body may be missing or incomplete. */
  #refused({ status, retryAfter, pieces }: Refusal): void {
    const read = readRefusal(Buffer.concat(pieces), this.#call.request.maxTokens);
    const { type, code, contextExceeded } = read;
    this.#fail({
      cause: { kind: "status", status, address: this.#address, type, code },
      retryAfterSeconds: retryAfterSeconds(retryAfter),
      contextExceeded,
    });
  }

  get #address(): string {
    return this.#route.client.options.url.host;
  }

  #complete(message: WholeMessage | undefined, native?: Buffer): void {
    this.onRead();
    if (this.#hasEnded) return;
    this.#end();
    this.worker.succeeded();
    this.#call.onEnd(message, native);
  }

  #break(): void {
    if (this.#hasEnded) return;
    const carrier = this.#carrier;
    this.#fail({ cause: { kind: "garbage", address: this.#address } });
    carrier?.abort();
  }

  /** An error in a callback of the decoder breaks this answer only. */
  #contain(read: () => void): void {
    runGuarded(read, (error) => {
      this.#call.network.deps.log.error({ err: error }, "an answer could not be read");
      this.#break();
    });
  }

  #fail(failure: AttemptFailure): void {
    this.onRead();
    if (this.#hasEnded) return;
    this.#end();
    this.#call.onError(this.worker, failure);
  }

  /** The connection may read the rest of the answer without a listener. */
  #end(): void {
    this.#hasEnded = true;
    this.worker.load.add(-1);
    this.#decoder?.close();
    // No other code would resume a connection that was paused in the middle of an answer.
    this.#carrier?.resume();
  }
}

/** `flat`: names in lower case and values, which have been checked by the code that built the list. */
function fields(flat: readonly string[] | undefined, except: ReadonlySet<string>): string {
  if (flat === undefined) return "";
  let lines = "";
  for (let at = 0; at + 1 < flat.length; at += 2) {
    if (!except.has(flat[at] ?? "")) lines += `${flat[at]}: ${flat[at + 1]}\r\n`;
  }
  return lines;
}
