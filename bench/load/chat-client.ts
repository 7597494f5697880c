/**
 * Reads many streams at the same time at little cost: it uses raw sockets and one connection per stream, and counts
 * events by their empty lines. The first streams begin evenly spread over the length of one stream, and each is
 * followed by another. The time to the first token begins when the request is written.
 */
import { agentPrompt } from "./agent-request.ts";
import { connect, type Socket } from "node:net";
import { quantile } from "./table.ts";

export const apis = {
  chat: { path: "/v1/chat/completions", end: "[DONE]" },
  responses: { path: "/v1/responses", end: "event: response.completed" },
  messages: { path: "/v1/messages", end: "event: message_stop" },
} as const;
export type Api = keyof typeof apis;

export interface StreamsOptions {
  readonly port: number;
  readonly api: Api;
  readonly headers: readonly string[];
  readonly streams: number;
  /** Time from the begin of the first stream to the end of the last one. */
  readonly seconds: number;
  /** Tokens of each stream, at 50 per second. */
  readonly tokens: number;
  /** Whether the requests are those of an agent, which the model answers with a call of a tool. Default: false. */
  readonly isAgent?: boolean;
  /** Whether an event may have several tokens, so that the end alone shows that an answer is whole. Default: false. */
  readonly isBatched?: boolean;
}

export interface StreamsResult {
  readonly started: number;
  /** Streams whose tokens and end all arrived. */
  readonly completed: number;
  readonly tokens: number;
  readonly seconds: number;
  /** Milliseconds to the first token. */
  readonly p50: number;
  readonly p99: number;
  /** Streams that did not complete, by the way in which they ended. */
  readonly faults: Readonly<Record<string, number>>;
}

interface StreamSlot {
  socket: Socket | undefined;
  asked: number;
  isStreaming: boolean;
  /** Text that arrived before the first event. Undefined after it. */
  opening: Buffer | undefined;
  /** The previous read, because the end of an answer may arrive in two reads. */
  last: Buffer;
  events: number;
  isComplete: boolean;
}

const tokensPerSecond = 50;
/** Time for late answers. After it, they count as unfinished. */
const graceMs = 15_000;
const nothing = Buffer.alloc(0);
const firstEvent = Buffer.from("data: ");
const eventEnd = Buffer.from("\n\n");

export async function runStreams(options: StreamsOptions): Promise<StreamsResult> {
  const request = requestOf(options);
  const end = Buffer.from(apis[options.api].end);
  const streamMs = (options.tokens / tokensPerSecond) * 1000;
  const latencies: number[] = [];
  const faults: Record<string, number> = {};
  const done = Promise.withResolvers<void>();
  const begun = performance.now();
  const lastStart = begun + options.seconds * 1000 - streamMs;
  let started = 0;
  let completed = 0;
  let tokens = 0;
  let busy = options.streams;

  const retire = (): void => {
    if (--busy === 0) done.resolve();
  };
  const begin = (slot: StreamSlot): void => {
    started++;
    Object.assign(slot, { isStreaming: true, opening: nothing, last: nothing, events: 0 });
    slot.isComplete = false;
    if (slot.socket === undefined) slot.socket = open(slot);
    else send(slot);
  };
  const send = (slot: StreamSlot): void => {
    slot.asked = performance.now();
    slot.socket?.write(request);
  };
  const finish = (slot: StreamSlot, fault: string | undefined): void => {
    slot.isStreaming = false;
    tokens += Math.min(slot.events, options.tokens);
    if (fault === undefined) completed++;
    else faults[fault] = (faults[fault] ?? 0) + 1;
    // The slot pauses, so that streams that fail at once do not become a flood of requests.
    if (fault === undefined && performance.now() <= lastStart) begin(slot);
    else retire();
  };
  const open = (slot: StreamSlot): Socket => {
    const socket = connect({ port: options.port, host: "127.0.0.1", noDelay: true });
    socket.once("connect", () => send(slot));
    socket.on("error", () => {});
    socket.on("data", (chunk: Buffer) => {
      if (!slot.isStreaming) return;
      const fault = read(slot, chunk, latencies, end);
      if (fault !== undefined) {
        socket.destroy();
        finish(slot, fault);
      } else if (hasEnded(slot)) {
        if (options.isBatched === true && slot.isComplete) slot.events = options.tokens + 1;
        finish(slot, isWhole(slot, options.tokens) ? undefined : "ended early");
      }
    });
    socket.on("close", () => {
      slot.socket = undefined;
      if (slot.isStreaming) finish(slot, "connection closed");
    });
    return socket;
  };
  const slots = Array.from({ length: options.streams }, (): StreamSlot => ({
    socket: undefined,
    asked: 0,
    isStreaming: false,
    opening: nothing,
    last: nothing,
    events: 0,
    isComplete: false,
  }));
  for (const [index, slot] of slots.entries()) {
    setTimeout(() => begin(slot), (index / options.streams) * streamMs);
  }
  const giveUp = setTimeout(done.resolve, options.seconds * 1000 + graceMs);
  await done.promise;
  clearTimeout(giveUp);
  if (busy > 0) faults["never ended"] = busy;
  for (const { socket } of slots) socket?.destroy();
  const seconds = (performance.now() - begun) / 1000;
  const [p50, p99] = [quantile(latencies, 0.5), quantile(latencies, 0.99)];
  return { started, completed, tokens, seconds, p50, p99, faults };
}

const system = "You are a helpful assistant.";
const user = { role: "user", content: "Say the same word again and again, please." };

function promptOf(api: Api, tokens: number): object {
  if (api === "responses")
    return { instructions: system, input: [user], max_output_tokens: tokens };
  if (api === "messages") return { system, messages: [user], max_tokens: tokens };
  return { messages: [{ role: "system", content: system }, user], max_tokens: tokens };
}

function requestOf({ api, headers, tokens, isAgent = false }: StreamsOptions): Buffer {
  const prompt = isAgent ? agentPrompt(api, tokens) : promptOf(api, tokens);
  const body = JSON.stringify({ model: "Bench/Echo-1", stream: true, ...prompt });
  const lines = [
    `POST ${apis[api].path} HTTP/1.1`,
    "host: 127.0.0.1",
    "content-type: application/json",
    "accept: text/event-stream",
    ...headers,
    `content-length: ${body.length}`,
  ];
  return Buffer.from(`${lines.join("\r\n")}\r\n\r\n${body}`);
}

/** Returns a fault if the answer is not a stream of events. */
function read(
  slot: StreamSlot,
  chunk: Buffer,
  latencies: number[],
  end: Buffer,
): string | undefined {
  let bytes = chunk;
  if (slot.opening !== undefined) {
    bytes = Buffer.concat([slot.opening, chunk]);
    if (bytes.length >= 12 && bytes.toString("latin1", 9, 12) !== "200") {
      return `status ${bytes.toString("latin1", 9, 12)}`;
    }
    if (!bytes.includes(firstEvent)) {
      slot.opening = bytes;
      return undefined;
    }
    latencies.push(performance.now() - slot.asked);
    slot.opening = undefined;
  } else if (slot.last.at(-1) === 10 && chunk[0] === 10) slot.events++;
  for (let at = bytes.indexOf(eventEnd); at !== -1; at = bytes.indexOf(eventEnd, at + 2)) {
    slot.events++;
  }
  slot.isComplete ||= Buffer.concat([slot.last, bytes]).includes(end);
  // The mark may arrive in two reads. Later only the end of the chunk is needed.
  slot.last =
    bytes.length >= 64 ? bytes.subarray(-64) : Buffer.concat([slot.last, bytes]).subarray(-64);
  return undefined;
}

function hasEnded({ opening, last }: StreamSlot): boolean {
  if (opening !== undefined) return false;
  // The last chunk of HTTP is `0` and an empty line. No event ends that way.
  const at = last.length - 5;
  return at >= 0 && last[at] === 48 && last[at + 1] === 13 && last[at + 3] === 13;
}

function isWhole({ isComplete, events }: StreamSlot, tokens: number): boolean {
  return isComplete && events >= tokens + 1;
}
