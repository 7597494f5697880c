/** Scripts for the answer of a worker to a chat request: valid, unusual, invalid or missing. */
import { gzipSync } from "node:zlib";
import {
  bytesOf,
  chunkOf,
  commentOf,
  eventOf,
  usageChunkOf,
  type EventForm,
} from "./chat-events.ts";
import type { Exchange, Script } from "./scripted-worker.ts";

interface Said {
  /** Default: `Hello`, ` world`. */
  readonly tokens?: readonly string[];
  readonly reasoning?: readonly string[];
  /** The usage in the report; `none` for no report. Default: 5 prompt tokens and the number of tokens sent. */
  readonly usage?: unknown;
  /** Default: `stop`. */
  readonly finishReason?: string;
  readonly model?: string;
  /** Members to add or replace in every chunk or in the document. */
  readonly extra?: object;
  /** Compress the body although the client did not allow it. */
  readonly gzip?: boolean;
}

export interface Streamed extends Said, EventForm {
  /** `: ping` before every event. */
  readonly pings?: boolean;
  /** `false`: the stream ends without `[DONE]`. */
  readonly done?: boolean;
  /** The unit of each write. Default: `event`. A compressed stream cannot be written event by event. */
  readonly pieces?: "event" | "byte" | "whole";
  /** Number of events to send (the first is the role) before the connection is cut or falls silent. */
  readonly stop?: { readonly after: number; readonly how: "cut" | "silence" };
}

const hello = ["Hello", " world"];

export function usageOf(promptTokens: number, completionTokens: number): object {
  const total = promptTokens + completionTokens;
  return { prompt_tokens: promptTokens, completion_tokens: completionTokens, total_tokens: total };
}

export function whole(said: Said = {}): Script {
  const { tokens = hello, reasoning = [], finishReason = "stop", model = "Test/Model-1" } = said;
  const message = {
    role: "assistant",
    content: tokens.join(""),
    ...(reasoning.length > 0 && { reasoning_content: reasoning.join("") }),
  };
  const usage = said.usage ?? usageOf(5, tokens.length + reasoning.length);
  const document = {
    id: "worker-1",
    object: "chat.completion",
    created: 1_767_225_600,
    model,
    choices: [{ index: 0, message, finish_reason: finishReason }],
    ...(usage !== "none" && { usage }),
    ...said.extra,
  };
  const headers = { "content-type": "application/json" };
  return raw(200, headers, [JSON.stringify(document)], said.gzip);
}

/** Answers with events. Usage is sent if the request asks for it, and always if it is given here. */
export function streamed(said: Streamed = {}): Script {
  return async (exchange) => {
    const events = eventsOf(said, said.usage !== undefined || asksUsage(exchange));
    const { stop, pieces = "event" } = said;
    const sent = stop === undefined ? events : events.slice(0, stop.after);
    exchange.begin(200, said.gzip === true ? { "content-encoding": "gzip" } : {});
    await pushAll(exchange, cutIn(pieces, sent, said.gzip === true));
    if (stop === undefined) exchange.end();
    else if (stop.how === "cut") exchange.cut();
  };
}

/** Refuses in OpenAI's format. Clients must never see the message. */
export function failing(status: number, headers: Readonly<Record<string, string>> = {}): Script {
  const error = { message: workerSecret, type: "worker_error", param: null, code: status };
  return raw(status, { "content-type": "application/json", ...headers }, [
    JSON.stringify({ error }),
  ]);
}

/** Part of every message of `failing`. Nothing that a client sees may contain it. */
export const workerSecret = "secret-of-the-worker";

export function raw(
  status: number,
  headers: Readonly<Record<string, string>>,
  pieces: readonly (string | Buffer)[],
  gzip = false,
): Script {
  return async (exchange) => {
    exchange.begin(status, { ...headers, ...(gzip && { "content-encoding": "gzip" }) });
    await pushAll(exchange, gzip ? [gzipSync(pieces.map(String).join(""))] : pieces);
    exchange.end();
  };
}

export const silent: Script = () => {};

export const cutImmediately: Script = (exchange) => exchange.cut();

function asksUsage({ body }: Exchange): boolean {
  const options = body["stream_options"];
  return (
    typeof options === "object" &&
    options !== null &&
    "include_usage" in options &&
    options.include_usage === true
  );
}

function eventsOf(said: Streamed, withUsage: boolean): string[] {
  const { tokens = hello, reasoning = [], finishReason = "stop", done = true } = said;
  const options = {
    ...(said.model !== undefined && { model: said.model }),
    ...(said.extra !== undefined && { extra: said.extra }),
  };
  const usage = said.usage ?? usageOf(5, tokens.length + reasoning.length);
  const documents: unknown[] = [
    chunkOf({ role: "assistant", content: "" }, options),
    ...reasoning.map((token) => chunkOf({ reasoning_content: token }, options)),
    ...tokens.map((token) => chunkOf({ content: token }, options)),
    chunkOf({}, { ...options, finishReason }),
    ...(withUsage && usage !== "none" ? [usageChunkOf(usage, options)] : []),
    ...(done ? ["[DONE]"] : []),
  ];
  const ping = said.pings === true ? commentOf("ping", said.newline) : "";
  return documents.map((document) => ping + eventOf(document, said));
}

function cutIn(
  pieces: "event" | "byte" | "whole",
  events: readonly string[],
  gzip: boolean,
): readonly (string | Buffer)[] {
  if (pieces === "event" && !gzip) return events;
  const text = events.join("");
  const bytes = gzip ? gzipSync(text) : Buffer.from(text);
  return pieces === "byte" ? bytesOf(bytes) : [bytes];
}

async function pushAll(exchange: Exchange, pieces: readonly (string | Buffer)[]): Promise<void> {
  for (const piece of pieces) {
    if ((await exchange.push(piece)) === "left") return;
  }
}
