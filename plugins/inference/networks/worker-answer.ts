/** Answers as server-sent events. Garbage, an error or an answer that ends too early is reported with `onError`. */
import { skipValue } from "sluice-gateway/internal/http";
import type { PartialAnswer, TokenUsage, WholeMessage } from "sluice-gateway/services";
import { readChoice } from "../read-json.ts";
import { EventStream, type EventReader } from "./event-stream.ts";
import { emptyChunk, readChunk, textBytes, type Chunk } from "./chunk.ts";
import { ChunkTemplate } from "./chunk-template.ts";
import { readUsage } from "./token-usage.ts";

/** Nothing is called after `onEnd` or `onError`. */
export interface AnswerSink {
  /** The bytes are borrowed. */
  onChoice(bytes: Buffer, start: number, end: number): void;
  /** `native`: as in `AnswerReader`. */
  onEnd(message: WholeMessage | undefined, native?: Buffer): void;
  onError(): void;
}

export interface WorkerAnswer {
  /** The bytes are borrowed. */
  write(bytes: Buffer, start: number, end: number): void;
  end(): void;
  readonly reported: TokenUsage | undefined;
  readonly produced: PartialAnswer;
  readonly finishReason: string | undefined;
}

const maxEventBytes = 1024 * 1024;

/** The chunk that was read last. All answers share it, because chunks are read one at a time. */
const scratchChunk = emptyChunk();
const reasoningSuffix = Buffer.from("_content");

/** Parses `data: <chunk>` … `data: [DONE]`. */
export class StreamedAnswer implements WorkerAnswer, EventReader {
  finishReason: string | undefined = undefined;
  reported: TokenUsage | undefined = undefined;
  readonly produced = { chunks: 0, bytes: 0, reasoningChunks: 0, reasoningBytes: 0 };
  protected readonly sink: AnswerSink;
  readonly #events = new EventStream(this, maxEventBytes);
  readonly #shape = new ChunkTemplate();
  protected hasEnded = false;

  constructor(sink: AnswerSink) {
    this.sink = sink;
  }

  write(bytes: Buffer, start: number, end: number): void {
    if (this.hasEnded) return;
    if (!this.#events.write(bytes, start, end)) this.break();
  }

  /** Some servers omit `[DONE]`. An answer with a finish reason is complete without it. */
  end(): void {
    if (this.finishReason === undefined) this.break();
    else this.complete();
  }

  event(bytes: Buffer, start: number, end: number): void {
    if (this.hasEnded) return;
    const shape = this.#shape;
    if (shape.matches(bytes, start, end)) {
      const size = textBytes(bytes, start + shape.textStart, end - shape.textEnd);
      this.count(size, shape.isReasoning ? size : 0);
      return this.sink.onChoice(bytes, start + shape.choiceStart, end - shape.choiceEnd);
    }
    if (isDone(bytes, start, end)) return this.complete();
    if (!readChunk(bytes, start, end, scratchChunk) || scratchChunk.isError) return this.break();
    if (scratchChunk.usageStart !== -1)
      this.#report(bytes, scratchChunk.usageStart, scratchChunk.usageEnd);
    if (scratchChunk.choiceStart === -1) return;
    if (scratchChunk.hasContent) this.count(scratchChunk.textBytes, scratchChunk.reasoningBytes);
    this.finishReason ??= scratchChunk.finishReason;
    if (!putOnOneLine(bytes, scratchChunk.choiceStart, scratchChunk.choiceEnd)) return this.break();
    if (isPlain(scratchChunk)) shape.remember(bytes, start, end, scratchChunk);
    this.#passChoice(
      bytes,
      scratchChunk.choiceStart,
      scratchChunk.choiceEnd,
      scratchChunk.reasoningAt,
    );
  }

  protected count(bytes: number, reasoningBytes: number): void {
    this.produced.chunks++;
    this.produced.bytes += bytes;
    if (reasoningBytes > 0) this.produced.reasoningChunks++;
    this.produced.reasoningBytes += reasoningBytes;
  }

  /** `reasoningAt`: where `reasoning` is renamed to `reasoning_content`; negative for no renaming. */
  #passChoice(bytes: Buffer, start: number, end: number, reasoningAt: number): void {
    if (reasoningAt < 0) return this.sink.onChoice(bytes, start, end);
    const before = bytes.subarray(start, reasoningAt);
    const renamed = Buffer.concat([before, reasoningSuffix, bytes.subarray(reasoningAt, end)]);
    this.sink.onChoice(renamed, 0, renamed.length);
  }

  /** The last report is used, because some servers send one with every chunk. */
  #report(bytes: Buffer, start: number, end: number): void {
    this.reported = readUsage(readChoice(bytes, start, end)) ?? this.reported;
  }

  protected complete(native?: Buffer): void {
    if (this.hasEnded) return;
    this.hasEnded = true;
    this.sink.onEnd(undefined, native);
  }

  protected break(): void {
    if (this.hasEnded) return;
    this.hasEnded = true;
    this.sink.onError();
  }
}

function isPlain({ textStart, finishReason, usageStart, reasoningAt }: Chunk): boolean {
  return textStart >= 0 && finishReason === undefined && usageStart === -1 && reasoningAt < 0;
}

export function isDone(bytes: Buffer, start: number, end: number): boolean {
  return end - start < 16 && bytes.toString("latin1", start, end).trim() === "[DONE]";
}

/**
 * Replaces control characters by spaces, because they would end a line of the event that forwards the choice. Returns
 * false if one is inside a string, which is not valid JSON.
 */
function putOnOneLine(bytes: Buffer, start: number, end: number): boolean {
  let at = start;
  while (at < end && (bytes[at] ?? 0) >= 0x20) at++;
  if (at === end) return true;
  if (skipValue(bytes, start, end, 0, "strict") !== end) return false;
  for (; at < end; at++) if ((bytes[at] ?? 0) < 0x20) bytes[at] = 0x20;
  return true;
}
