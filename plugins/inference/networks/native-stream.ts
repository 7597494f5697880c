/**
 * A stream in an API that a worker speaks natively. Its events are passed on, except the last ones: they are reported when
 * the answer is complete.
 */
import { readChoice } from "../read-json.ts";
import { countWritten, isReasoning, type ReadEvent } from "./native-answers.ts";
import { isDone, StreamedAnswer, type AnswerSink } from "./worker-answer.ts";

export class NativeStream extends StreamedAnswer {
  readonly #read: ReadEvent;
  /** The event with the end of the answer. */
  #last: Buffer | undefined;
  /** Number of bytes that the model has written in the items that are done. */
  #doneBytes = 0;

  constructor(sink: AnswerSink, read: ReadEvent) {
    super(sink);
    this.#read = read;
  }

  /** Some servers omit the event after the one with the end of the answer. */
  override end(): void {
    if (this.#last === undefined || this.finishReason === undefined) this.break();
    else this.complete(this.#last);
  }

  override event(bytes: Buffer, start: number, end: number): void {
    if (this.hasEnded || isDone(bytes, start, end)) return;
    const event = readChoice(bytes, start, end);
    if (typeof event["type"] !== "string") return this.break();
    const { step, usage, finishReason } = this.#read(event);
    this.reported = usage ?? this.reported;
    this.finishReason = finishReason ?? this.finishReason;
    if (step === "failed") return this.break();
    if (step === "last" || step === "end") this.#last = Buffer.from(bytes.subarray(start, end));
    if (step === "done" || step === "end") return this.end();
    if (step === "last") return;
    const isItem = event["type"] === "response.output_item.done";
    let written = countWritten(event);
    if (event["type"].endsWith(".done")) {
      // The event ends a part of the answer and repeats its text, of which some servers have sent no pieces.
      const repeated = this.#doneBytes + written;
      if (isItem) this.#doneBytes = repeated;
      written = Math.max(0, repeated - this.produced.bytes);
    }
    if (written > 0) this.count(written, isReasoning(event) ? written : 0);
    this.sink.onChoice(bytes, start, end);
  }
}
