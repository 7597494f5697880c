/** Computes an answer's cost from its request and bytes (docs/inference.md, "Charging"), without gateway code. */
import { dataOf } from "../networks/chat-events.ts";
import type { ChatReceived } from "../networks/scripted-worker.ts";

/** Prices of the classes of tokens, in tenths of a nano native token. */
export interface Prices {
  readonly prompt: number;
  readonly cached: number;
  readonly completion: number;
  readonly reasoning: number;
}

/** `classic` has one price for all tokens. Each class of tokens is the dearer one in one of the others. */
export const networks = {
  classic: { prompt: 70, cached: 70, completion: 70, reasoning: 70 },
  usual: { prompt: 70, cached: 7, completion: 213, reasoning: 300 },
  unusual: { prompt: 20, cached: 71, completion: 95, reasoning: 0 },
} satisfies Readonly<Record<string, Prices>>;
export type NetworkName = keyof typeof networks;

/** With it, a tenth of a nano native token costs 35 thousandths of a milli-CU, so that charges are rounded both ways. */
export const usdRate = "0.35";
const thousandthsMilli = 35n;

/** Token limit of requests without a limit of their own: the network's `maxOutputTokens`. */
export const tokenCap = 400;

/** Tokens that a chat template may add to a prompt. */
const templateTokens = 16_384;

interface ExpectedCharge {
  readonly inputTokens: number;
  readonly outputTokens: number;
  /** Undefined if the network has one price. */
  readonly cachedTokens: number | undefined;
  readonly reasoningTokens: number | undefined;
  readonly estimated: boolean;
  readonly milli: number;
  /** True if the answer is complete, also if it was ended at its token limit. */
  readonly isComplete: boolean;
}

interface Sent {
  readonly network: NetworkName;
  readonly received: ChatReceived;
  readonly bytes: Buffer;
  readonly isEnded: boolean;
}

/** `cached` is a part of `prompt`, and `reasoning` of `completion`. */
type Tokens = Prices;

interface Arrived {
  chunks: number;
  textBytes: number;
  reasoningChunks: number;
  reasoningBytes: number;
  reported: Tokens | undefined;
}

type Json = Readonly<Record<string, unknown>>;

/** Returns undefined if nothing is charged. */
export function expectedCharge(sent: Sent): ExpectedCharge | undefined {
  return sent.received.body["stream"] === true ? chargeOfStream(sent) : chargeOfDocument(sent);
}

/** Returns the reserved milli-CU of a request: a token per byte of the prompt, plus its limit, at the dearer prices. */
function reservedMilli({ body }: ChatReceived, prices: Prices): number {
  const messages = messagesOf(body);
  const roles = messages.map(({ role }) => byteLength(String(role)) + 32);
  const template = byteLength(JSON.stringify(body["chat_template_kwargs"]));
  const prompt = promptBytes(body) + template + sum(roles);
  return milliOf(
    prompt * Math.max(prices.prompt, prices.cached) +
      limitOf(body) * Math.max(prices.completion, prices.reasoning),
  );
}

function costMilli({ prompt, cached, completion, reasoning }: Tokens, prices: Prices): number {
  return milliOf(
    (prompt - cached) * prices.prompt +
      cached * prices.cached +
      (completion - reasoning) * prices.completion +
      reasoning * prices.reasoning,
  );
}

function milliOf(tenthsNano: number): number {
  return Number((BigInt(tenthsNano) * thousandthsMilli + 500n) / 1000n);
}

export function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, each) => total + each, 0);
}

function chargeOfStream({ isEnded, ...sent }: Sent): ExpectedCharge | undefined {
  const { received, bytes } = sent;
  const arrived: Arrived = { ...nothing };
  const limit = limitOf(received.body);
  // Servers may send a few more chunks than tokens.
  const maxChunks = limit + Math.ceil(limit / 8) + 32;
  let choices = 0;
  let hasFinishReason = false;
  for (const data of completeEvents(bytes)) {
    if (data === "[DONE]") return charge(sent, arrived, true);
    const chunk = parse(data);
    if (!isObject(chunk) || (chunk["error"] ?? null) !== null) {
      return choices === 0 ? undefined : charge(sent, arrived, false);
    }
    arrived.reported = readReport(chunk["usage"]) ?? arrived.reported;
    const choice = Array.isArray(chunk["choices"]) ? (chunk["choices"][0] as unknown) : undefined;
    if (!isObject(choice)) continue;
    choices++;
    const text = textsOfDelta(choice["delta"]);
    if (text.length > 0) arrived.chunks++;
    arrived.textBytes += sum(text.map(textBytes));
    const reasoning = reasoningOfDelta(choice["delta"]);
    if (reasoning.length > 0) arrived.reasoningChunks++;
    arrived.reasoningBytes += sum(reasoning.map(textBytes));
    if (arrived.chunks > maxChunks || choices > 4 * maxChunks) {
      return charge(sent, arrived, true);
    }
    hasFinishReason ||= isText(choice["finish_reason"]);
  }
  if (isEnded && hasFinishReason) return charge(sent, arrived, true);
  return choices === 0 ? undefined : charge(sent, arrived, false);
}

function chargeOfDocument({ isEnded, ...sent }: Sent): ExpectedCharge | undefined {
  const { bytes } = sent;
  const document = isEnded ? parse(bytes.toString()) : undefined;
  const choices = isObject(document) ? document["choices"] : undefined;
  const choice: unknown = Array.isArray(choices) ? choices[0] : undefined;
  const message = isObject(choice) ? choice["message"] : undefined;
  if (!isObject(document) || !isObject(message)) return undefined;
  const calls = message["tool_calls"] ?? [];
  if (!Array.isArray(calls) || !calls.every(isCall)) return undefined;
  const reported = readReport(document["usage"]);
  // Of two texts of reasoning, clients get the first.
  const [reasoning = ""] = [message["reasoning_content"] ?? message["reasoning"]].filter(isText);
  const reasoningBytes = textBytes(reasoning);
  const bytesOfTexts = sum(textsOf(message).map(textBytes));
  return charge(sent, { ...nothing, textBytes: bytesOfTexts, reasoningBytes, reported }, true);
}

const nothing: Arrived = {
  chunks: 0,
  textBytes: 0,
  reasoningChunks: 0,
  reasoningBytes: 0,
  reported: undefined,
};

function charge(
  { network, received }: Omit<Sent, "isEnded">,
  arrived: Arrived,
  isComplete: boolean,
): ExpectedCharge {
  const { body, text } = received;
  const prices = networks[network];
  const hasClasses = network !== "classic";
  const limit = limitOf(body);
  const { reported } = arrived;
  const isBelieved =
    reported !== undefined &&
    reported.prompt <= byteLength(text) + templateTokens &&
    reported.completion <= limit &&
    (!hasClasses ||
      (reported.cached <= reported.prompt && reported.reasoning <= reported.completion));
  const completion = Math.min(limit, tokensOf(arrived.chunks, arrived.textBytes));
  const thought = tokensOf(arrived.reasoningChunks, arrived.reasoningBytes);
  const counted = {
    prompt: Math.ceil(promptBytes(body) / 4),
    cached: 0,
    completion,
    reasoning: Math.min(completion, thought),
  };
  const tokens = isBelieved ? reported : counted;
  // A charge never exceeds its reservation.
  const milli = Math.min(costMilli(tokens, prices), reservedMilli(received, prices));
  return {
    inputTokens: tokens.prompt,
    outputTokens: tokens.completion,
    cachedTokens: hasClasses ? tokens.cached : undefined,
    reasoningTokens: hasClasses ? tokens.reasoning : undefined,
    estimated: !isBelieved,
    milli,
    isComplete,
  };
}

/** Returns the data of the events whose empty line has arrived. */
function completeEvents(bytes: Buffer): string[] {
  const text = bytes.toString("latin1");
  const end = Math.max(text.lastIndexOf("\n\n"), text.lastIndexOf("\n\r\n"));
  return end === -1 ? [] : dataOf(`${bytes.toString("utf8", 0, end)}\n\n`);
}

function tokensOf(chunks: number, bytes: number): number {
  return Math.max(chunks, Math.ceil(bytes / 4));
}

/** Undefined if a count is missing or is not a possible number of tokens. A part that is neither counts as 0. */
function readReport(usage: unknown): Tokens | undefined {
  if (!isObject(usage)) return undefined;
  const { prompt_tokens: prompt, completion_tokens: completion } = usage;
  if (!isCount(prompt) || !isCount(completion)) return undefined;
  const cached = partOf(usage["prompt_tokens_details"], "cached_tokens");
  const reasoning = partOf(usage["completion_tokens_details"], "reasoning_tokens");
  return { prompt, cached, completion, reasoning };
}

function partOf(details: unknown, name: string): number {
  const count = isObject(details) ? details[name] : undefined;
  return isCount(count) ? count : 0;
}

function isCount(value: unknown): value is number {
  return Number.isInteger(value) && Number(value) >= 0 && Number(value) <= 1e9;
}

/** Returns the texts that the model has written in a message whose calls are well-formed. */
function textsOf(message: Json): string[] {
  const { content, reasoning_content: thought, reasoning, tool_calls: calls } = message;
  const called = Array.isArray(calls)
    ? calls.flatMap((call: Json) => calledTexts(call["function"]))
    : [];
  return [content, thought, reasoning, ...called].filter(isText);
}

/** Returns the texts in a delta that the client gets, in whatever form the model has written them. */
function textsOfDelta(delta: unknown): string[] {
  if (!isObject(delta)) return [];
  const { content, refusal, tool_calls: calls } = delta;
  return [
    ...textsIn([content, refusal]),
    ...reasoningOfDelta(delta),
    ...calledTexts(delta["function_call"]),
    ...(Array.isArray(calls) ? calls : []).flatMap((call: unknown) =>
      isObject(call)
        ? [...calledTexts(call["function"]), ...calledTexts(call["custom"])]
        : textsIn(call),
    ),
  ];
}

function reasoningOfDelta(delta: unknown): string[] {
  return isObject(delta) ? textsIn([delta["reasoning_content"], delta["reasoning"]]) : [];
}

function calledTexts(called: unknown): string[] {
  return isObject(called) ? textsIn([called["name"], called["arguments"], called["input"]]) : [];
}

function textsIn(value: unknown): string[] {
  if (typeof value !== "object" || value === null) return [value].filter(isText);
  return Object.values(value).flatMap(textsIn);
}

function isCall(call: unknown): boolean {
  const called = isObject(call) ? call["function"] : undefined;
  if (!isObject(call) || !isObject(called)) return false;
  return [call["id"], called["name"], called["arguments"]].every((x) => typeof x === "string");
}

/** A half of a character that was cut is two of its four bytes. */
function textBytes(text: string): number {
  const halves = Array.from(text).filter((character) => !character.isWellFormed()).length;
  return byteLength(text) - halves;
}

function promptBytes(body: Json): number {
  return sum(messagesOf(body).map(({ content }) => byteLength(String(content))));
}

function messagesOf(body: Json): readonly Json[] {
  // The gateway has checked the messages before the worker received them.
  return body["messages"] as readonly Json[];
}

function limitOf(body: Json): number {
  return Number(body["max_tokens"] ?? tokenCap);
}

function byteLength(text: string): number {
  return Buffer.byteLength(text);
}

function isText(value: unknown): value is string {
  return typeof value === "string" && value !== "";
}

function isObject(value: unknown): value is Json {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
