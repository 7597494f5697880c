/**
 * A streamed completion. Each chunk of the worker is forwarded in the turn of the event loop in which it arrived, with
 * its choice unchanged in an envelope of the gateway. The head is sent with the first chunk, so that an earlier failure
 * gets its own status.
 */
import type { Reply, Sink } from "sluice-gateway/plugin";
import type {
  AnswerReader,
  InferenceCall,
  InferenceFailure,
  InferenceResult,
  Offer,
} from "sluice-gateway/services";
import {
  settle,
  settleClientLeft,
  usageOf,
  type Completion,
  type ResolveReply,
} from "./completion.ts";
import { codeOfFailure, errorJson, failureOutcome, failureReply } from "./errors.ts";
import { ignoredFieldsHeader } from "./ignored-fields.ts";
import { atEndOfTurn, type Writer } from "./end-of-turn.ts";

const headers: readonly string[] = [
  "content-type",
  "text/event-stream; charset=utf-8",
  "cache-control",
  "no-cache",
  // Without this header, nginx would hold chunks back to fill its buffers.
  "x-accel-buffering",
  "no",
];

const done = "data: [DONE]\n\n";
const suffix = "]}\n\n";

/** Resolves to a Reply if nothing was sent, and to undefined when the stream has ended in any way. */
export function streamCompletion(
  completion: Completion,
  body: Buffer,
  offer: Offer,
): Promise<Reply | undefined> {
  return new Promise((resolve, reject) => {
    const stream = new StreamedCompletion(completion, resolve, reject);
    const { promptBytes, maxTokens } = completion.request;
    stream.begin(offer.send({ body, streamed: true, promptBytes, maxTokens }, stream));
  });
}

/**
 * Passes the answer of a worker to the client. Its methods are called from sockets and at the end of a turn of the
 * event loop, where nothing catches errors. An error in one of them fails this exchange only.
 */
class StreamedCompletion implements AnswerReader, Writer {
  readonly #completion: Completion;
  readonly #resolve: ResolveReply;
  readonly #reject: (error: unknown) => void;
  /**
   * The part of every chunk before its choice, in UTF-8 bytes of which each is a character (latin1), like the chunks.
   */
  readonly #prefix: string;
  #call: InferenceCall | undefined;
  #sink: Sink | undefined;
  /** True while the head passes through the steps. */
  #opening = false;
  /** Chunks that are written together. */
  #chunks = "";
  /** True if the chunks are written at the end of this turn. */
  #isDue = false;
  /** Ends the stream, once its end is known. Runs when the sink is open. */
  #finish: ((sink: Sink) => Promise<void>) | undefined;
  /** Set when the client has left. Resolves when the charge is settled. */
  #leaving: Promise<undefined> | undefined;

  constructor(completion: Completion, resolve: ResolveReply, reject: (error: unknown) => void) {
    this.#completion = completion;
    this.#resolve = resolve;
    this.#reject = reject;
    this.#prefix = Buffer.from(`data: ${this.#envelope()},"choices":[`).toString("latin1");
  }

  begin(call: InferenceCall): void {
    this.#call = call;
    this.#completion.x.onAbort = this;
  }

  // Callbacks of the call.

  choice(bytes: Buffer, start: number, end: number): void {
    this.#chunks += this.#prefix + bytes.toString("latin1", start, end) + suffix;
  }

  arrived(): void {
    if (this.#leaving !== undefined) return;
    if (this.#sink !== undefined) {
      if (!this.#isDue) atEndOfTurn(this);
      this.#isDue = true;
    } else if (!this.#opening) this.#open();
    // The head is not sent yet, so further chunks would pile up here.
    else this.#call?.pause();
  }

  turnEnds(): void {
    this.#isDue = false;
    if (this.#sink !== undefined) this.#writeChunks(this.#sink);
  }

  ended(result: InferenceResult): void {
    this.#failOnError(() => {
      const usedMilli = settle(this.#completion, result);
      const { includeUsage } = this.#completion.request;
      const usage = includeUsage ? this.#usageChunk(result, usedMilli) : "";
      this.#finishWith((sink) => sink.end(undefined, Buffer.from(usage + done)));
    });
  }

  failed(failure: InferenceFailure, result: InferenceResult | undefined): void {
    this.#failOnError(() => this.#fail(failure, result));
  }

  #fail(failure: InferenceFailure, result: InferenceResult | undefined): void {
    if (result === undefined) {
      this.#completion.x.onAbort = undefined;
      return this.#resolve(failureReply(failure));
    }
    const outcome = failureOutcome(failure);
    settle(this.#completion, result, outcome);
    this.#completion.brokenBy = codeOfFailure[failure];
    // `[DONE]` is omitted, so that no client takes the answer for complete.
    const event = Buffer.from(`data: ${errorJson(codeOfFailure[failure])}\n\n`);
    this.#finishWith((sink) => sink.end(undefined, event, outcome));
  }

  // Callback of the exchange.

  aborted(): void {
    this.#leaving = settleClientLeft(this.#completion, this.#call);
    if (!this.#opening) this.#resolve(this.#leaving);
  }

  #failOnError(run: () => void): void {
    try {
      run();
    } catch (error) {
      this.broke(error);
    }
  }

  broke(error: unknown): void {
    this.#completion.x.onAbort = undefined;
    this.#reject(error);
    this.#call?.abort();
  }

  #open(): void {
    this.#opening = true;
    const { x, request } = this.#completion;
    x.stream(200, [...headers, ...ignoredFieldsHeader(request.ignored)])
      .then((sink) => this.#opened(sink))
      .catch((error: unknown) => this.broke(error));
  }

  #opened(sink: Sink): void {
    this.#opening = false;
    this.#sink = sink;
    if (this.#leaving !== undefined) return this.#resolve(this.#leaving);
    sink.onDrain = () => this.#call?.resume();
    if (this.#writeChunks(sink)) this.#call?.resume();
    if (this.#finish !== undefined) this.#end(sink, this.#finish);
  }

  /** Writes the collected chunks. Returns true while the client has room for more. */
  #writeChunks(sink: Sink): boolean {
    const hasRoom = sink.write(this.#chunks, "latin1");
    this.#chunks = "";
    if (!hasRoom) this.#call?.pause();
    return hasRoom;
  }

  #finishWith(finish: (sink: Sink) => Promise<void>): void {
    if (this.#sink !== undefined) return this.#end(this.#sink, finish);
    this.#finish = finish;
    if (!this.#opening) this.#open();
  }

  #end(sink: Sink, finish: (sink: Sink) => Promise<void>): void {
    this.#completion.x.onAbort = undefined;
    this.#writeChunks(sink);
    finish(sink).then(() => this.#resolve(undefined), this.#reject);
  }

  /** Returns the members before `choices`, without the closing brace. */
  #envelope(): string {
    const { id, created, request } = this.#completion;
    const { model } = request;
    return JSON.stringify({ id, object: "chat.completion.chunk", created, model }).slice(0, -1);
  }

  #usageChunk(result: InferenceResult, usedMilli: number): string {
    const usage = JSON.stringify(usageOf(result, usedMilli));
    return `data: ${this.#envelope()},"choices":[],"usage":${usage}}\n\n`;
  }
}
