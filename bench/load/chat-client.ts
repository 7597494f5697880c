/**
 * Reads many streams at the same time at little cost: it uses raw sockets and one connection per stream, and counts
 * events by their empty lines. The first streams begin evenly spread over the length of one stream, and each is
 * followed by another, so that the requested number of streams runs from then on. The time to the first token begins
 * when the request is written.
 */
import { connect, type Socket } from "node:net";

export interface StreamsOptions {
  readonly port: number;
  readonly path: string;
  readonly headers: readonly string[];
  /** Number of streams that run at the same time. */
  readonly streams: number;
  /** Time from the begin of the first stream to the end of the last one. */
  readonly seconds: number;
  /** Number of tokens of each stream, at 50 per second. */
  readonly tokens: number;
}

export interface StreamsResult {
  readonly started: number;
  /** Number of streams whose tokens, `[DONE]` and end all arrived. */
  readonly completed: number;
  readonly tokens: number;
  readonly seconds: number;
  /** Milliseconds to the first token. */
  readonly p50: number;
  readonly p99: number;
  /** Numbers of streams that did not complete, by the way in which they ended. */
  readonly faults: Readonly<Record<string, number>>;
}

interface Lane {
  socket: Socket | undefined;
  asked: number;
  isStreaming: boolean;
  /** Text that arrived before the first event. Undefined after it. */
  opening: Buffer | undefined;
  /** The previous read, because the end of an answer may arrive in two reads. */
  last: Buffer;
  events: number;
}

const tokensPerSecond = 50;
/** Time for late answers. After it, they count as unfinished. */
const graceMs = 15_000;
const nothing = Buffer.alloc(0);
const firstEvent = Buffer.from("data: ");
const eventEnd = Buffer.from("\n\n");

export async function runStreams(options: StreamsOptions): Promise<StreamsResult> {
  const request = requestOf(options);
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
  const begin = (lane: Lane): void => {
    started++;
    Object.assign(lane, { isStreaming: true, opening: nothing, last: nothing, events: 0 });
    if (lane.socket === undefined) lane.socket = open(lane);
    else send(lane);
  };
  const send = (lane: Lane): void => {
    lane.asked = performance.now();
    lane.socket?.write(request);
  };
  const finish = (lane: Lane, fault: string | undefined): void => {
    lane.isStreaming = false;
    tokens += Math.min(lane.events, options.tokens);
    if (fault === undefined) completed++;
    else faults[fault] = (faults[fault] ?? 0) + 1;
    // The lane pauses, so that streams that fail at once do not become a flood of requests.
    if (fault === undefined && performance.now() <= lastStart) begin(lane);
    else retire();
  };
  const open = (lane: Lane): Socket => {
    const socket = connect({ port: options.port, host: "127.0.0.1", noDelay: true });
    socket.once("connect", () => send(lane));
    socket.on("error", () => {});
    socket.on("data", (chunk: Buffer) => {
      if (!lane.isStreaming) return;
      const fault = read(lane, chunk, latencies);
      if (fault !== undefined) {
        socket.destroy();
        finish(lane, fault);
      } else if (hasEnded(lane)) {
        finish(lane, isWhole(lane, options.tokens) ? undefined : "ended early");
      }
    });
    socket.on("close", () => {
      lane.socket = undefined;
      if (lane.isStreaming) finish(lane, "connection closed");
    });
    return socket;
  };
  const lanes = Array.from({ length: options.streams }, (): Lane => ({
    socket: undefined,
    asked: 0,
    isStreaming: false,
    opening: nothing,
    last: nothing,
    events: 0,
  }));
  for (const [index, lane] of lanes.entries()) {
    setTimeout(() => begin(lane), (index / options.streams) * streamMs);
  }
  const giveUp = setTimeout(done.resolve, options.seconds * 1000 + graceMs);
  await done.promise;
  clearTimeout(giveUp);
  if (busy > 0) faults["never ended"] = busy;
  for (const { socket } of lanes) socket?.destroy();
  latencies.sort((a, b) => a - b);
  const at = (share: number): number => latencies[Math.floor(latencies.length * share)] ?? NaN;
  const seconds = (performance.now() - begun) / 1000;
  return { started, completed, tokens, seconds, p50: at(0.5), p99: at(0.99), faults };
}

function requestOf({ path, headers, tokens }: StreamsOptions): Buffer {
  const body = JSON.stringify({
    model: "Bench/Echo-1",
    messages: [
      { role: "system", content: "You are a helpful assistant." },
      { role: "user", content: "Say the same word again and again, please." },
    ],
    stream: true,
    max_tokens: tokens,
  });
  const lines = [
    `POST ${path} HTTP/1.1`,
    "host: 127.0.0.1",
    "content-type: application/json",
    "accept: text/event-stream",
    ...headers,
    `content-length: ${body.length}`,
  ];
  return Buffer.from(`${lines.join("\r\n")}\r\n\r\n${body}`);
}

/** Counts the events of a chunk. Returns a fault if the answer is not a stream of events. */
function read(lane: Lane, chunk: Buffer, latencies: number[]): string | undefined {
  let bytes = chunk;
  if (lane.opening !== undefined) {
    bytes = Buffer.concat([lane.opening, chunk]);
    if (bytes.length >= 12 && bytes.toString("latin1", 9, 12) !== "200") {
      return `status ${bytes.toString("latin1", 9, 12)}`;
    }
    if (!bytes.includes(firstEvent)) {
      lane.opening = bytes;
      return undefined;
    }
    latencies.push(performance.now() - lane.asked);
    lane.opening = undefined;
  } else if (lane.last.at(-1) === 10 && chunk[0] === 10) lane.events++;
  for (let at = bytes.indexOf(eventEnd); at !== -1; at = bytes.indexOf(eventEnd, at + 2)) {
    lane.events++;
  }
  // Later only the end of the chunk is needed.
  lane.last =
    bytes.length >= 64 ? bytes.subarray(-64) : Buffer.concat([lane.last, bytes]).subarray(-64);
  return undefined;
}

function hasEnded({ opening, last }: Lane): boolean {
  if (opening !== undefined) return false;
  // The last chunk of HTTP is `0` and an empty line. No event ends that way.
  const at = last.length - 5;
  return at >= 0 && last[at] === 48 && last[at + 1] === 13 && last[at + 3] === 13;
}

function isWhole({ last, events }: Lane, tokens: number): boolean {
  return last.includes("[DONE]") && events >= tokens + 1;
}
