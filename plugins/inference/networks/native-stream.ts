/**
 * A stream in an API that a worker speaks natively. Its events are passed on, except the last ones: they are reported when
 * the answer is complete. Anything else (garbage, an error, a stream that ends too early) is reported with `onError`.
 */
import type { TokenUsage } from "sluice-gateway/services";
import { isObject } from "sluice-gateway/toolkit";
import { EventStream, type EventReader } from "./event-stream.ts";
import { countWritten, type ReadEvent } from "./native-answers.ts";
import { isDone, maxEventBytes, type AnswerSink, type WorkerAnswer } from "./worker-answer.ts";
import { parse } from "./whole-answer.ts";

export class NativeStream implements WorkerAnswer, EventReader {
  finishReason: string | undefined = undefined;
  reported: TokenUsage | undefined = undefined;
  readonly produced = { chunks: 0, bytes: 0 };
  readonly #sink: AnswerSink;
  readonly #read: ReadEvent;
  readonly #events = new EventStream(this, maxEventBytes);
  /** The event with the end of the answer. */
  #last: Buffer | undefined;
  #hasEnded = false;

  constructor(sink: AnswerSink, read: ReadEvent) {
    this.#sink = sink;
    this.#read = read;
  }

  write(bytes: Buffer, start: number, end: number): void {
    if (!this.#hasEnded && !this.#events.write(bytes, start, end)) this.#break();
  }

  end(): void {
    this.#complete();
  }

  event(bytes: Buffer, start: number, end: number): void {
    if (this.#hasEnded || isDone(bytes, start, end)) return;
    const event = parse(bytes.subarray(start, end));
    if (!isObject(event) || typeof event["type"] !== "string") return this.#break();
    const { step, usage, finishReason } = this.#read(event);
    this.reported = usage ?? this.reported;
    this.finishReason = finishReason ?? this.finishReason;
    if (step === "failed") return this.#break();
    if (step === "last" || step === "end") this.#last = Buffer.from(bytes.subarray(start, end));
    if (step === "done" || step === "end") return this.#complete();
    if (step === "last") return;
    // An event that ends a part of the answer repeats its text.
    const written = event["type"].endsWith(".done") ? 0 : countWritten(event);
    if (written > 0) this.produced.chunks++;
    this.produced.bytes += written;
    this.#sink.onChoice(bytes, start, end);
  }

  /** Some servers omit the event after the one with the end of the answer. */
  #complete(): void {
    if (this.#last === undefined || this.finishReason === undefined) return this.#break();
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    this.#sink.onEnd(undefined, this.#last);
  }

  #break(): void {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    this.#sink.onError();
  }
}
