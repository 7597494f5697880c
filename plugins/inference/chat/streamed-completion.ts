/**
 * A streamed completion: each chunk of the worker's goes on in the turn of the event loop that brought it, with its
 * choice as the worker wrote it in an envelope of ours. The head leaves with the first chunk, so that until then a
 * failure has a status of its own.
 */
import type {
  AnswerReader,
  InferenceCall,
  InferenceFailure,
  InferenceResult,
  Offer,
  Reply,
  Sink,
} from "sluice-gateway/plugin";
import { settle, settleClientLeft, usageOf, type Completion } from "./completion.ts";
import { chatError, codeOfFailure, errorJson } from "./errors.ts";
import { ignoredFieldsHeader } from "./ignored-fields.ts";
import { atEndOfTurn, type Writer } from "./end-of-turn.ts";

const headers: readonly string[] = [
  "content-type",
  "text/event-stream; charset=utf-8",
  "cache-control",
  "no-cache",
  // nginx would hold chunks back to fill its buffers.
  "x-accel-buffering",
  "no",
];

const done = "data: [DONE]\n\n";
const suffix = "]}\n\n";

/** Resolves to a Reply when nothing was sent, to undefined when the stream has ended, however it did. */
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

type Resolve = (reply: Reply | undefined | Promise<undefined>) => void;

/**
 * Its methods are called from sockets and at the end of the event loop's turn, where nobody catches: what goes wrong in
 * one of them is this exchange's failure alone.
 */
class StreamedCompletion implements AnswerReader, Writer {
  readonly #completion: Completion;
  readonly #resolve: Resolve;
  readonly #reject: (error: unknown) => void;
  /** Of every chunk: all that stands before its choice. As chunks: the bytes of UTF-8, each a character. */
  readonly #prefix: string;
  #call: InferenceCall | undefined;
  #sink: Sink | undefined;
  /** The head is on its way through the steps. */
  #opening = false;
  /** Chunks to write together. */
  #chunks = "";
  /** They will be when this turn of the event loop ends. */
  #isDue = false;
  /** How it ends, once that is known: runs when the sink is there. */
  #finish: ((sink: Sink) => Promise<void>) | undefined;
  /** Set when the client has left: resolves when what it owes is charged. */
  #leaving: Promise<undefined> | undefined;

  constructor(completion: Completion, resolve: Resolve, reject: (error: unknown) => void) {
    this.#completion = completion;
    this.#resolve = resolve;
    this.#reject = reject;
    this.#prefix = Buffer.from(`data: ${this.#envelope()},"choices":[`).toString("latin1");
  }

  begin(call: InferenceCall): void {
    this.#call = call;
    this.#completion.x.onAbort = this;
  }

  // What the worker's side reports.

  choice(bytes: Buffer, start: number, end: number): void {
    this.#chunks += this.#prefix + bytes.toString("latin1", start, end) + suffix;
  }

  arrived(): void {
    if (this.#leaving !== undefined) return;
    if (this.#sink !== undefined) {
      if (!this.#isDue) atEndOfTurn(this);
      this.#isDue = true;
    } else if (!this.#opening) this.#open();
    // The head takes its time: more would pile up here.
    else this.#call?.pause();
  }

  turnEnds(): void {
    this.#isDue = false;
    if (this.#sink !== undefined) this.#pass(this.#sink);
  }

  ended(result: InferenceResult): void {
    this.#contain(() => {
      const usedMilli = settle(this.#completion, result);
      const { includeUsage } = this.#completion.request;
      const usage = includeUsage ? this.#usageChunk(result, usedMilli) : "";
      this.#finishWith((sink) => sink.end(undefined, Buffer.from(usage + done)));
    });
  }

  failed(failure: InferenceFailure, result: InferenceResult | undefined): void {
    this.#contain(() => this.#fail(failure, result));
  }

  #fail(failure: InferenceFailure, result: InferenceResult | undefined): void {
    const outcome = failure === "timedOut" ? "timedOut" : "upstreamFailed";
    if (result === undefined) {
      this.#completion.x.onAbort = undefined;
      const rejected = codeOfFailure[failure] === "INVALID_REQUEST";
      return this.#resolve(chatError(codeOfFailure[failure], rejected ? {} : { outcome }));
    }
    settle(this.#completion, result, outcome);
    this.#completion.brokenBy = codeOfFailure[failure];
    // Without `[DONE]`: nobody can take the answer for whole.
    const event = Buffer.from(`data: ${errorJson(codeOfFailure[failure])}\n\n`);
    this.#finishWith((sink) => sink.end(undefined, event, outcome));
  }

  // What the client's side reports.

  aborted(): void {
    this.#leaving = settleClientLeft(this.#completion, this.#call);
    if (!this.#opening) this.#resolve(this.#leaving);
  }

  #contain(run: () => void): void {
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
    if (this.#pass(sink)) this.#call?.resume();
    if (this.#finish !== undefined) this.#end(sink, this.#finish);
  }

  /** True while the client has room for more. */
  #pass(sink: Sink): boolean {
    const room = sink.write(this.#chunks, "latin1");
    this.#chunks = "";
    if (!room) this.#call?.pause();
    return room;
  }

  #finishWith(finish: (sink: Sink) => Promise<void>): void {
    if (this.#sink !== undefined) return this.#end(this.#sink, finish);
    this.#finish = finish;
    if (!this.#opening) this.#open();
  }

  #end(sink: Sink, finish: (sink: Sink) => Promise<void>): void {
    this.#completion.x.onAbort = undefined;
    this.#pass(sink);
    finish(sink).then(() => this.#resolve(undefined), this.#reject);
  }

  /** The members before `choices`, without the closing brace. */
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
