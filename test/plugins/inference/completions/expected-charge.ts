/**
 * Computes what an answer must cost from the request that a worker received and the bytes that it sent (docs/inference.md,
 * "Charging"). It shares no code with the gateway.
 */
import { dataOf } from "../networks/chat-events.ts";
import type { ChatReceived } from "../networks/scripted-worker.ts";

/** 7 nano native tokens × 0.35 USD are 2.45 milli-CU per token, so that charges are rounded in both directions. */
export const price = { nano: "7", usd: "0.35", hundredthsMilli: 245n };

/** Token limit of requests without a limit of their own: the network's `maxOutputTokens`. */
export const tokenCap = 400;

/** Tokens that a chat template may add to a prompt. */
const templateTokens = 16_384;

interface ExpectedCharge {
  readonly inputTokens: number;
  readonly outputTokens: number;
  readonly estimated: boolean;
  readonly milli: number;
  /** True if the answer is complete, also if it was ended at its token limit. */
  readonly isComplete: boolean;
}

/** What a worker has sent, and whether it has ended the body properly. */
interface Sent {
  readonly received: ChatReceived;
  readonly bytes: Buffer;
  readonly isEnded: boolean;
}

interface Tokens {
  readonly prompt: number;
  readonly completion: number;
}

/** What has arrived of an answer. */
interface Arrived {
  chunks: number;
  textBytes: number;
  reported: Tokens | undefined;
}

type Json = Readonly<Record<string, unknown>>;

/** Returns undefined if nothing is charged. */
export function expectedCharge(sent: Sent): ExpectedCharge | undefined {
  return sent.received.body["stream"] === true ? chargeOfStream(sent) : chargeOfDocument(sent);
}

/** Returns the milli-CU that a request reserves: one token per byte that the model may read, plus its token limit. */
function reservedMilli({ body }: ChatReceived): number {
  const messages = messagesOf(body);
  const roles = messages.map(({ role }) => byteLength(String(role)) + 32);
  const template = byteLength(JSON.stringify(body["chat_template_kwargs"]));
  return milliOf(promptBytes(body) + template + sum(roles) + limitOf(body));
}

function milliOf(tokens: number): number {
  return Number((BigInt(tokens) * price.hundredthsMilli + 50n) / 100n);
}

export function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, each) => total + each, 0);
}

function chargeOfStream({ received, bytes, isEnded }: Sent): ExpectedCharge | undefined {
  const arrived: Arrived = { chunks: 0, textBytes: 0, reported: undefined };
  const limit = limitOf(received.body);
  // Servers may send a few more chunks than tokens.
  const maxChunks = limit + Math.ceil(limit / 8) + 32;
  let choices = 0;
  let hasFinishReason = false;
  for (const data of completeEvents(bytes)) {
    if (data === "[DONE]") return charge(received, arrived, true);
    const chunk = parse(data);
    if (!isObject(chunk) || (chunk["error"] ?? null) !== null) {
      return choices === 0 ? undefined : charge(received, arrived, false);
    }
    arrived.reported = readReport(chunk["usage"]) ?? arrived.reported;
    const choice = Array.isArray(chunk["choices"]) ? (chunk["choices"][0] as unknown) : undefined;
    if (!isObject(choice)) continue;
    choices++;
    const text = textsOf(choice["delta"]);
    if (text.length > 0) arrived.chunks++;
    arrived.textBytes += sum(text.map(textBytes));
    if (arrived.chunks > maxChunks || choices > 4 * maxChunks) {
      return charge(received, arrived, true);
    }
    hasFinishReason ||= isText(choice["finish_reason"]);
  }
  if (isEnded && hasFinishReason) return charge(received, arrived, true);
  return choices === 0 ? undefined : charge(received, arrived, false);
}

function chargeOfDocument({ received, bytes, isEnded }: Sent): ExpectedCharge | undefined {
  const document = isEnded ? parse(bytes.toString()) : undefined;
  const choices = isObject(document) ? document["choices"] : undefined;
  const choice: unknown = Array.isArray(choices) ? choices[0] : undefined;
  const message = isObject(choice) ? choice["message"] : undefined;
  if (!isObject(document) || !isObject(message)) return undefined;
  const calls = message["tool_calls"] ?? [];
  if (!Array.isArray(calls) || !calls.every(isCall)) return undefined;
  const reported = readReport(document["usage"]);
  const bytesOfTexts = sum(textsOf(message).map(textBytes));
  return charge(received, { chunks: 0, textBytes: bytesOfTexts, reported }, true);
}

function charge(received: ChatReceived, arrived: Arrived, isComplete: boolean): ExpectedCharge {
  const { body, text } = received;
  const limit = limitOf(body);
  const { reported } = arrived;
  const isBelieved =
    reported !== undefined &&
    reported.prompt <= byteLength(text) + templateTokens &&
    reported.completion <= limit;
  const counted = {
    prompt: Math.ceil(promptBytes(body) / 4),
    completion: Math.min(limit, Math.max(arrived.chunks, Math.ceil(arrived.textBytes / 4))),
  };
  const { prompt, completion } = isBelieved ? reported : counted;
  // A charge never exceeds its reservation.
  const milli = Math.min(milliOf(prompt + completion), reservedMilli(received));
  return {
    inputTokens: prompt,
    outputTokens: completion,
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

/** Undefined if a count is missing or is not a possible number of tokens. */
function readReport(usage: unknown): Tokens | undefined {
  if (!isObject(usage)) return undefined;
  const { prompt_tokens: prompt, completion_tokens: completion } = usage;
  return isCount(prompt) && isCount(completion) ? { prompt, completion } : undefined;
}

function isCount(value: unknown): value is number {
  return Number.isInteger(value) && Number(value) >= 0 && Number(value) <= 1e9;
}

/** Returns the texts that the model has written in a delta or a message. Calls after a malformed one are not read. */
function textsOf(said: unknown): string[] {
  if (!isObject(said)) return [];
  const texts: unknown[] = [said["content"], said["reasoning_content"], said["reasoning"]];
  for (const call of Array.isArray(said["tool_calls"]) ? (said["tool_calls"] as unknown[]) : []) {
    if (!isObject(call)) break;
    const called = call["function"];
    if (isObject(called)) texts.push(called["name"], called["arguments"]);
  }
  return texts.filter(isText);
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
