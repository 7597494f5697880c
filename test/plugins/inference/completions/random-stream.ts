/** Plans of random exchanges: a request over one of three APIs, and what the worker and the client do. */
import type { Random } from "../../../../bench/soak/random.ts";
import { chunkOf, eventOf, usageChunkOf } from "../networks/chat-events.ts";
import { usageOf } from "../networks/worker-scripts.ts";
import { model } from "../chat/gateway.ts";
import { networks, type NetworkName } from "./expected-charge.ts";
import { randomAnswer, randomJunk, type RandomAnswer } from "./random-choices.ts";

type Api = "chat" | "responses" | "messages";

export interface Plan {
  readonly api: Api;
  readonly network: NetworkName;
  readonly path: string;
  readonly body: object;
  readonly streamed: boolean;
  readonly bytes: Buffer;
  /** Number of bytes that the worker sends, which may be fewer than it planned. */
  readonly cutAt: number;
  readonly isEnded: boolean;
  /** The client leaves after the worker has sent this number of bytes. Undefined if it stays. */
  readonly leavesAt: number | undefined;
  /** The worker repeats this until the gateway closes the connection. */
  readonly endless: Buffer | undefined;
}

export const lastText = "<the client leaves>";

const paths = {
  chat: "/v1/chat/completions",
  responses: "/v1/responses",
  messages: "/v1/messages",
};

/** `name`: the request contains it, and the worker finds the plan by it. */
export function randomPlan(name: string, random: Random): Plan {
  const api = random.pick(["chat", "responses", "messages"] as const);
  const streamed = random.int(4) > 0;
  const leaves = random.int(6) === 0;
  const limits = [0, 1 + random.int(20), 1 + random.int(100), 500];
  const maxTokens = leaves ? 2_000 : random.pick(limits) || undefined;
  const body = bodyOf(api, { name, streamed, maxTokens, random });
  const said = { answer: randomAnswer(random, 3), usage: randomUsage(maxTokens, random) };
  const network = random.pick(Object.keys(networks) as NetworkName[]);
  const path = `/${network}${paths[api]}`;
  const planned = { api, network, path, body, streamed, endless: undefined };
  if (!streamed) return { ...planned, ...wholeOf(said, leaves, random) };
  if (leaves) return { ...planned, ...abandoned(said, random) };
  const form = { newline: random.pick(["\n", "\r\n"] as const) };
  const bytes = Buffer.from(
    documentsOf(said, random)
      .map((each) => eventOf(each, form))
      .join(""),
  );
  if (random.int(100) === 0) {
    const endless = Buffer.from(endlessDelta(random).repeat(20));
    const empty = { bytes: Buffer.alloc(0), cutAt: 0, isEnded: false, leavesAt: undefined };
    return { ...planned, ...empty, endless };
  }
  return { ...planned, bytes, ...randomCut(bytes, random), leavesAt: undefined };
}

interface Said {
  readonly answer: RandomAnswer;
  readonly usage: unknown;
}

interface Wanted {
  readonly name: string;
  readonly streamed: boolean;
  readonly maxTokens: number | undefined;
  readonly random: Random;
}

function bodyOf(api: Api, { name, streamed: stream, maxTokens, random }: Wanted): object {
  const text = `${name} ${random.pick(["", "語", "🙂 hello "]).repeat(random.int(20))}`;
  const messages = [{ role: "user", content: text }];
  if (api === "responses") {
    return { model, stream, input: text, max_output_tokens: maxTokens };
  }
  if (api === "messages") return { model, stream, messages, max_tokens: maxTokens ?? 300 };
  const usage = stream && random.int(2) === 0 && { stream_options: { include_usage: true } };
  return { model, stream, messages, max_tokens: maxTokens, ...usage };
}

/** Returns a report that is missing, correct, malformed, or too high by one or by far. */
function randomUsage(maxTokens = 300, random: Random): unknown {
  const kind = random.int(10);
  if (kind === 0) return undefined;
  if (kind === 1) return usageOf(random.pick([1e6, 1e9, 1e12]), random.int(10));
  if (kind === 2) return usageOf(random.int(20), maxTokens + random.int(2));
  if (kind === 3) return usageOf(16_384 + random.int(600), random.int(maxTokens));
  if (kind === 4) {
    const count = random.pick([-1, 0.5, "7", null, {}, Number.MAX_VALUE]);
    return random.pick([{ ...usageOf(3, 4), completion_tokens: count }, [], "5", {}, null]);
  }
  const prompt = random.int(60);
  const completion = random.int(Math.min(maxTokens, 200));
  return withParts(prompt, completion, random, random.int(5) === 0 ? 2 : 1);
}

/** Returns a report with the cached and the reasoning tokens. With `most` of 2, they may be too many by one. */
function withParts(prompt: number, completion: number, random: Random, most = 1): object {
  const parts = random.int(4);
  const malformed = random.int(10) === 0 ? random.pick([-1, 0.5, "1", null]) : undefined;
  const cached = malformed ?? random.int(prompt + most);
  const reasoning = malformed ?? random.int(completion + most);
  return {
    ...usageOf(prompt, completion),
    ...(parts !== 0 && { prompt_tokens_details: { cached_tokens: cached } }),
    ...(parts !== 1 && { completion_tokens_details: { reasoning_tokens: reasoning } }),
  };
}

/** Returns the documents of a stream. Some are malformed, missing, or at an unusual place. */
function documentsOf({ answer, usage }: Said, random: Random): unknown[] {
  const { deltas } = answer;
  const reasons = [answer.finishReason, answer.finishReason, "stop", "x", "", null] as const;
  const documents: unknown[] = deltas.map((delta) => chunkOf(delta));
  const put = (at: number, document: unknown): void => void documents.splice(at, 0, document);
  for (let junk = random.int(4) === 0 ? random.int(6) : 0; junk > 0; junk--) {
    // The value is not a delta, which is the purpose.
    put(random.int(documents.length), chunkOf(randomJunk(random) as object));
  }
  if (random.int(5) > 0) put(documents.length, chunkOf({}, { finishReason: random.pick(reasons) }));
  const place = random.int(4);
  if (usage !== undefined) {
    put(place === 0 ? random.int(documents.length) : documents.length, usageChunkOf(usage));
    if (place === 1) put(0, chunkOf({ role: "assistant" }, { extra: { usage: usageOf(1, 0) } }));
  }
  if (random.int(5) > 0) put(documents.length, "[DONE]");
  if (random.int(15) === 0) {
    const garbage = ["[1,2", "nonsense", "7", { error: { message: "x" } }];
    put(random.int(documents.length + 1), random.pick(garbage));
  }
  return documents;
}

/** A call with a new index every time, or a delta in which there is nothing. */
function endlessDelta(random: Random): string {
  const call = { index: random.int(9), id: "c", function: { name: "f", arguments: "{" } };
  return eventOf(chunkOf(random.pick([{ tool_calls: [call] }, { tool_calls: [] }, {}])));
}

function randomCut(bytes: Buffer, random: Random): Pick<Plan, "cutAt" | "isEnded"> {
  const cutAt = random.int(3) === 0 ? random.int(bytes.length) : bytes.length;
  return { cutAt, isEnded: cutAt === bytes.length ? random.int(10) > 0 : random.int(3) === 0 };
}

/**
 * The client leaves before the first byte or after some deltas. The charge must not depend on the moment at which the
 * gateway notices it, so the worker writes nothing afterwards unless it also reports a usage that is believed.
 */
function abandoned(
  { answer, usage }: Said,
  random: Random,
): Omit<Plan, "api" | "network" | "path" | "body"> {
  const calls = answer.deltas.findIndex((delta) => "tool_calls" in delta);
  const at = random.int(1 + (calls === -1 ? answer.deltas.length : calls));
  const hasBegun = random.int(4) > 0;
  const isReported = random.int(2) === 0;
  const eventsOf = (documents: readonly unknown[]): string =>
    documents.map((document) => eventOf(document)).join("");
  const before = hasBegun
    ? [...answer.deltas.slice(0, at).map((delta) => chunkOf(delta)), chunkOf({ content: lastText })]
    : [];
  const written = isReported ? answer.deltas.slice(at).map((delta) => chunkOf(delta)) : [];
  const report = isReported ? withParts(random.int(60), random.int(200), random) : usage;
  const after = [
    ...written,
    chunkOf({}, { finishReason: answer.finishReason }),
    ...(report === undefined ? [] : [usageChunkOf(report)]),
    "[DONE]",
  ];
  const begun = eventsOf(before);
  const bytes = Buffer.from(begun + eventsOf(after));
  const leavesAt = Buffer.byteLength(begun);
  // If the report may be cut off, nothing is written after the client has left.
  const cutAt =
    isReported || random.int(2) === 0
      ? bytes.length
      : leavesAt + random.int(bytes.length - leavesAt);
  return {
    streamed: true,
    bytes,
    cutAt,
    isEnded: cutAt === bytes.length,
    leavesAt,
    endless: undefined,
  };
}

function wholeOf(
  { answer, usage }: Said,
  leaves: boolean,
  random: Random,
): Pick<Plan, "bytes" | "cutAt" | "isEnded" | "leavesAt"> {
  const { finishReason } = answer;
  const broken = { tool_calls: [{ id: 7, function: { name: [], arguments: {} } }] };
  const message = random.int(20) === 0 ? broken : answer.message;
  const choices = [{ index: 0, message, finish_reason: finishReason }];
  const bytes = Buffer.from(JSON.stringify({ id: "worker-1", model, choices, usage }));
  return { bytes, ...randomCut(bytes, random), leavesAt: leaves ? 0 : undefined };
}
