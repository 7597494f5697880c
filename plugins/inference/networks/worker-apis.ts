import {
  malformed,
  openBracket,
  rangeIs,
  readMembers,
  skipSpace,
  type ReadMember,
} from "sluice-gateway/internal/http";
import type { InferenceRequest, WorkerApi } from "sluice-gateway/services";
import { readChoice } from "../read-json.ts";
import {
  messageEvents,
  readTokenCount,
  readWholeMessage,
  readWholeResponse,
  responseEvents,
  type ReadEvent,
  countWritten,
  isReasoning,
} from "./native-answers.ts";
import { readUsage } from "./token-usage.ts";
import { readChatCompletion, WholeAnswer, type ReadWhole } from "./whole-answer.ts";
import { StreamedAnswer, type AnswerSink, type WorkerAnswer, isDone } from "./worker-answer.ts";

const noBytes = Buffer.alloc(0);
const maxUsageBytes = 4096;

interface Found {
  dataStart: number;
  dataEnd: number;
  usage: Buffer | undefined;
  isError: boolean;
}

const readMember: ReadMember<Found> = (bytes, nameStart, nameEnd, start, end, found) => {
  if (rangeIs(bytes, nameStart, nameEnd, '"data"')) {
    found.dataStart = bytes[start] === openBracket ? start : malformed;
    found.dataEnd = end;
  } else if (rangeIs(bytes, nameStart, nameEnd, '"usage"')) {
    found.usage = end - start <= maxUsageBytes ? bytes.subarray(start, end) : undefined;
  } else if (rangeIs(bytes, nameStart, nameEnd, '"error"')) {
    found.isError = !rangeIs(bytes, start, end, "null");
  }
};

/** Checks only the structure: `data` can have megabytes of numbers, which nothing here needs as values. */
const readEmbeddings: ReadWhole = (bytes) => {
  const found: Found = { dataStart: malformed, dataEnd: 0, usage: undefined, isError: false };
  const start = skipSpace(bytes, 0, bytes.length);
  const end = readMembers(bytes, start, bytes.length, 0, "trusted", readMember, found);
  if (end === malformed || skipSpace(bytes, end, bytes.length) !== bytes.length) return undefined;
  if (found.dataStart === malformed || found.isError) return undefined;
  return {
    finishReason: "stop",
    usage: readUsage({ ...readChoice(found.usage ?? noBytes), completion_tokens: 0 }),
    writtenBytes: 0,
    native: bytes.subarray(found.dataStart, found.dataEnd),
  };
};

interface ApiOfWorkers {
  /** The path below `/v1`. */
  readonly path: string;
  readonly readWhole: ReadWhole;
  /** Undefined if its streams, if it has any, are those of chat completions. */
  readonly events?: () => ReadEvent;
}

const apis: Readonly<Record<WorkerApi | "chat", ApiOfWorkers>> = {
  chat: { path: "/chat/completions", readWhole: readChatCompletion },
  embeddings: { path: "/embeddings", readWhole: readEmbeddings },
  responses: { path: "/responses", readWhole: readWholeResponse, events: responseEvents },
  messages: { path: "/messages", readWhole: readWholeMessage, events: messageEvents },
  count_tokens: { path: "/messages/count_tokens", readWhole: readTokenCount },
};

export function pathOf(api: WorkerApi | undefined): string {
  return apis[api ?? "chat"].path;
}

export function createAnswer(
  { api, streamed, maxAnswerBytes }: InferenceRequest,
  sink: AnswerSink,
): WorkerAnswer {
  const { readWhole, events } = apis[api ?? "chat"];
  if (!streamed) return new WholeAnswer(sink, readWhole, maxAnswerBytes);
  return events === undefined ? new StreamedAnswer(sink) : new NativeStream(sink, events());
}

/** The last events are not passed on but reported when the answer is complete. */
class NativeStream extends StreamedAnswer {
  readonly #read: ReadEvent;
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
