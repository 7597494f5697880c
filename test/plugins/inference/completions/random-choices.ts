/** Random answers as streams of chat completions, planned and then cut into deltas, so nothing here reads a stream. */
import assert from "node:assert/strict";
import type { InferenceResult } from "sluice-gateway/services";
import { createRandom, type Random } from "../../../../bench/soak/random.ts";
import { StreamedAnswer } from "../../../../plugins/inference/networks/worker-answer.ts";
import { chunkOf, commentOf, eventOf, usageChunkOf } from "../networks/chat-events.ts";
import { usageOf } from "../networks/worker-scripts.ts";

/** A part of an answer. Neighbours have different kinds, except calls. */
export type Part =
  | { readonly kind: "reasoning" | "text"; readonly text: string }
  | {
      readonly kind: "call";
      readonly id: string;
      readonly name: string;
      /** A JSON object. */
      readonly arguments: string;
    };

export interface RandomAnswer {
  readonly parts: readonly Part[];
  readonly finishReason: "stop" | "length" | "tool_calls" | "content_filter";
  readonly promptTokens: number;
  readonly completionTokens: number;
  readonly deltas: readonly object[];
  /** Server-sent events up to `[DONE]`. */
  readonly stream: Buffer;
  readonly message: object;
}

const words = [
  "a",
  " the",
  "\n",
  "ü",
  "語",
  "🙂",
  '"',
  "\\",
  "data: ",
  "[DONE]",
  "{}",
  "\u2028",
  "\0",
];
const toolNames = ["edit", "shell", "get_weather"];

/** `maxParts`: at least 1. */
export function randomAnswer(random: Random, maxParts = 4): RandomAnswer {
  const parts = randomParts(random, 1 + random.int(maxParts));
  const deltas: object[] = random.int(2) === 0 ? [{ role: "assistant", content: "" }] : [];
  for (const part of parts) {
    if (part.kind === "call") continue;
    const member =
      part.kind === "text" ? "content" : random.pick(["reasoning_content", "reasoning"]);
    for (const text of cut(part.text, random)) deltas.push({ [member]: text });
  }
  // Calls are at the end of an answer.
  const calls = parts.filter((part) => part.kind === "call");
  deltas.push(...deltasOfCalls(calls, random));
  const finishReason =
    calls.length > 0 ? "tool_calls" : random.pick(["stop", "length", "content_filter"] as const);
  const promptTokens = 1 + random.int(50);
  const completionTokens = deltas.length + random.int(20);
  const usage = usageOf(promptTokens, completionTokens);
  const documents: unknown[] = [
    ...deltas.map((delta) => chunkOf(delta)),
    chunkOf({}, { finishReason }),
    usageChunkOf(usage),
    "[DONE]",
  ];
  const newline = random.pick(["\n", "\r\n"] as const);
  const events = documents.map((document) => {
    const ping = random.int(20) === 0 ? commentOf("ping", newline) : "";
    return ping + eventOf(document, { newline });
  });
  return {
    parts,
    finishReason,
    promptTokens,
    completionTokens,
    deltas,
    stream: Buffer.from(events.join("")),
    message: messageOf(parts),
  };
}

/** Cuts bytes at random positions, possibly inside of a character. The pieces share the memory of `bytes`. */
export function randomPieces(bytes: Buffer, random: Random): Buffer[] {
  const pieces: Buffer[] = [];
  const longest = random.pick([random.pick([1, 4]), 20, 100, bytes.length]);
  for (let at = 0; at < bytes.length;) {
    const end = at + 1 + random.int(longest);
    pieces.push(bytes.subarray(at, end));
    at = end;
  }
  return pieces;
}

export function randomJunk(random: Random, levels = 3): unknown {
  const kind = random.int(levels === 0 ? 5 : 8);
  if (kind === 0) return null;
  if (kind === 1) return random.int(3) - 1;
  if (kind === 2) return random.int(2) === 0;
  if (kind === 3) return random.pick(["", "edit", '{"a":', "}", "{}", "\ud83d", "x".repeat(80)]);
  if (kind === 4) return 1e300;
  if (kind === 5)
    return Array.from({ length: random.int(4) }, () => randomJunk(random, levels - 1));
  const names = ["content", "reasoning_content", "tool_calls", "index", "id", "function", "name"];
  names.push("arguments", "type", "__proto__", "role", "refusal", "logprobs");
  const members = Array.from({ length: random.int(5) }, () => [
    random.pick(names),
    randomJunk(random, levels - 1),
  ]);
  return Object.fromEntries(members);
}

function randomParts(random: Random, count: number): Part[] {
  const parts: Part[] = [];
  let kind = random.pick(["reasoning", "text"] as const);
  for (let at = 0; at < count; at++) {
    if (random.int(4) === 0) break;
    parts.push({ kind, text: randomText(random) });
    kind = kind === "text" ? "reasoning" : "text";
  }
  const calls = parts.length === 0 ? 1 + random.int(3) : random.int(4);
  for (let at = 0; at < calls; at++) {
    const value = { [randomText(random)]: randomText(random), list: [at, null, {}] };
    const id = `call_${at}_${random.int(1000)}`;
    parts.push({
      kind: "call",
      id,
      name: random.pick(toolNames),
      arguments: JSON.stringify(value),
    });
  }
  return parts;
}

function randomText(random: Random): string {
  return Array.from({ length: 1 + random.int(8) }, () => random.pick(words)).join("");
}

/** Cuts a text at random positions, possibly between the two halves of a character. */
function cut(text: string, random: Random): string[] {
  const pieces: string[] = [];
  for (let at = 0; at < text.length;) {
    const end = at + 1 + random.int(6);
    pieces.push(text.slice(at, end));
    at = end;
  }
  return pieces;
}

type CallPart = Extract<Part, { kind: "call" }>;

/** Calls come one after the other, mixed, or whole and all with index 0, as servers send them. */
function deltasOfCalls(calls: readonly CallPart[], random: Random): object[] {
  const style = random.pick(["sequential", "mixed", "whole"]);
  const queues = calls.map(({ id, name, arguments: text }, position) => {
    const index = style === "whole" ? 0 : position;
    const [first = "", ...rest] = style === "whole" ? [text] : ["", ...cut(text, random)];
    return [
      { index, id, type: "function", function: { name, arguments: first } },
      ...rest.map((piece) => ({ index, function: { arguments: piece } })),
    ];
  });
  const deltas: object[] = [];
  // The first deltas keep the order of the calls, also where calls are mixed.
  for (let begun = 0; queues.some((queue) => queue.length > 0);) {
    const open = queues.filter((queue, at) => queue.length > 0 && at <= begun);
    const queue = style === "mixed" ? random.pick(open) : open[0];
    if (queue === queues[begun]) begun++;
    deltas.push({ tool_calls: [queue?.shift()] });
  }
  return deltas;
}

function messageOf(parts: readonly Part[]): object {
  const textsOf = (kind: "reasoning" | "text"): string =>
    parts.flatMap((part) => (part.kind === kind ? [part.text] : [])).join("");
  const calls = parts.flatMap((part) => (part.kind === "call" ? [part] : []));
  return {
    role: "assistant",
    content: textsOf("text"),
    reasoning_content: textsOf("reasoning"),
    tool_calls: calls.map(({ id, name, arguments: text }) => {
      return { id, type: "function", function: { name, arguments: text } };
    }),
  };
}

interface ChoiceReader {
  choice(bytes: Uint8Array, start: number, end: number): string;
}

/** Checks that many random answers; an error names the seed and the answer. */
export function forRandomAnswers(
  count: number,
  check: (answer: RandomAnswer, random: Random) => void,
): void {
  const seed = Date.now() | 0;
  const random = createRandom(seed);
  for (let at = 0; at < count; at++) {
    const answer = randomAnswer(random);
    try {
      check(answer, random);
    } catch (error) {
      const message = `seed ${seed}, answer ${at}: ${answer.stream.toString()}`;
      throw new Error(message, { cause: error });
    }
  }
}

/** Reads the beginning of an answer in random pieces. Returns the text that the stream made of it, and the reader. */
export function readPieces(
  stream: ChoiceReader,
  bytes: Buffer,
  random: Random,
): { readonly text: string; readonly reader: StreamedAnswer } {
  let text = "";
  const reader = new StreamedAnswer({
    onChoice: (choice, start, end) => (text += stream.choice(choice, start, end)),
    onEnd: () => {},
    onError: () => assert.fail("the answer broke"),
  });
  for (const piece of randomPieces(bytes, random)) reader.write(piece, 0, piece.length);
  return { text, reader };
}

export function readJunk(stream: ChoiceReader, random: Random): string {
  let text = "";
  for (let at = random.int(12); at > 0; at--) {
    const choice = random.int(9) === 0 ? randomJunk(random) : { delta: randomJunk(random) };
    const bytes = Buffer.from(random.int(20) === 0 ? '{"delta":' : JSON.stringify(choice));
    text += stream.choice(bytes, 0, bytes.length);
  }
  return text;
}

export function resultOf({
  promptTokens,
  completionTokens,
}: Pick<RandomAnswer, "promptTokens" | "completionTokens">): InferenceResult {
  const usage = { promptTokens, completionTokens, cachedTokens: undefined };
  return {
    worker: { network: "n", id: "w", pricing: {} as InferenceResult["worker"]["pricing"] },
    usage: { ...usage, reasoningTokens: undefined, estimated: false },
    costMilliCu: 1,
    finishReason: "stop",
  };
}
