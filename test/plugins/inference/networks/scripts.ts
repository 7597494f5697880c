/** How a worker answers a chat request: well, oddly, badly or not at all. */
import { gzipSync } from "node:zlib";
import { bytesOf, chunkOf, commentOf, eventOf, usageChunkOf, type EventForm } from "./sse.ts";
import type { Exchange, Script } from "./worker.ts";

interface Said {
  /** Default: `Hello`, ` world`. */
  readonly tokens?: readonly string[];
  /** Tokens of `reasoning_content` that come first. */
  readonly reasoning?: readonly string[];
  /** Whatever a worker may claim; `none`: no usage at all. Default: 5 prompt tokens and the tokens said. */
  readonly usage?: unknown;
  /** Default: `stop`. */
  readonly finishReason?: string;
  readonly model?: string;
  /** Members beside or instead of the usual ones, in every chunk or the one document. */
  readonly extra?: object;
  /** The body is compressed, the caller's Accept-Encoding notwithstanding. */
  readonly gzip?: boolean;
  /** Further headers. */
  readonly headers?: Readonly<Record<string, string>>;
}

export interface Streamed extends Said, EventForm {
  /** `: ping` before every event. */
  readonly pings?: boolean;
  /** `false`: the stream ends without `[DONE]`. */
  readonly done?: boolean;
  /** What is written at once. Default: `event`. A compressed stream has no events to write one by one. */
  readonly pieces?: "event" | "byte" | "whole";
  /** The first so many events only (the role is the first), and then no end: the connection is cut or nothing comes. */
  readonly stop?: { readonly after: number; readonly how: "cut" | "silence" };
}

const hello = ["Hello", " world"];

/** Usage as a worker reports it that counts each token once. */
export function usageOf(promptTokens: number, completionTokens: number): object {
  const total = promptTokens + completionTokens;
  return { prompt_tokens: promptTokens, completion_tokens: completionTokens, total_tokens: total };
}

/** One JSON document. */
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
  const headers = { "content-type": "application/json", ...said.headers };
  return raw(200, headers, [JSON.stringify(document)], said.gzip);
}

/** Events. Usage is sent when the request asks for it, and in any case when it is given here. */
export function streamed(said: Streamed = {}): Script {
  return async (exchange) => {
    const events = eventsOf(said, said.usage !== undefined || asksUsage(exchange));
    const { stop, pieces = "event", headers = {} } = said;
    const sent = stop === undefined ? events : events.slice(0, stop.after);
    exchange.begin(200, { ...headers, ...(said.gzip === true && { "content-encoding": "gzip" }) });
    await pushAll(exchange, cutIn(pieces, sent, said.gzip === true));
    if (stop === undefined) exchange.end();
    else if (stop.how === "cut") exchange.cut();
  };
}

/** A refusal in OpenAI's shape. The message is one that no caller may ever see. */
export function failing(status: number, headers: Readonly<Record<string, string>> = {}): Script {
  const error = { message: workerSecret, type: "worker_error", param: null, code: status };
  return raw(status, { "content-type": "application/json", ...headers }, [
    JSON.stringify({ error }),
  ]);
}

/** Stands in every message of `failing`: what a client sees must not hold it. */
export const workerSecret = "secret-of-the-worker";

/** Any bytes under any head. */
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

/** Takes the request and never says a word, head included. */
export const silent: Script = () => {};

/** Takes the request and cuts the connection before the head. */
export const cutAtOnce: Script = (exchange) => exchange.cut();

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

/** One write after the other, each with the kernel before the next; stops when the caller has left. */
async function pushAll(exchange: Exchange, pieces: readonly (string | Buffer)[]): Promise<void> {
  for (const piece of pieces) {
    if ((await exchange.push(piece)) === "left") return;
  }
}
