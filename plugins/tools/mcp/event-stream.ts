/**
 * What is told of a call while it runs, and what its client is asked, as server-sent events. The stream opens with the
 * first event: a call that has none is answered as plain JSON.
 */
import type { Clock, Exchange, LogLevel, Sink } from "sluice-gateway/plugin";
import { isAtLeast } from "./log-levels.ts";

/** `X-Accel-Buffering`: nginx holds events back otherwise. */
const headers: readonly string[] = [
  "content-type",
  "text/event-stream",
  "cache-control",
  "no-store",
  "x-accel-buffering",
  "no",
];
/** Proxies cut streams that are silent for longer than a minute or two. */
const keepAliveMs = 15_000;
const keepAlive = Buffer.from(": \n\n");
/** Events that wait for the head. A tool that tells more in one go is not heard out. */
const maxQueuedEvents = 1000;

/** What a client wants to hear of a call while it runs. */
export interface Wanted {
  /** The progress token as JSON text. */
  readonly token?: string | undefined;
  /** The mildest of what the tool logs. */
  readonly level?: LogLevel | undefined;
}

export function eventText(json: string): string {
  return `event: message\ndata: ${json}\n\n`;
}

export class EventStream {
  readonly #x: Exchange;
  readonly #clock: Clock;
  readonly #wanted: Wanted;
  #opening: Promise<Sink> | undefined;
  #sink: Sink | undefined;
  #timer: Disposable | undefined;
  /** Written before the head has gone through the steps. */
  #queued: string[] = [];
  #last = -Infinity;
  #full = false;
  #ended = false;

  constructor(x: Exchange, clock: Clock, wanted: Wanted) {
    this.#x = x;
    this.#clock = clock;
    this.#wanted = wanted;
  }

  get opened(): boolean {
    return this.#opening !== undefined;
  }

  /** Must increase with every event; what does not is left out. */
  progress(done: number, total?: number, message?: string): void {
    const { token } = this.#wanted;
    if (token === undefined || this.#ended) return;
    if (!Number.isFinite(done) || done <= this.#last) return;
    this.#last = done;
    const known = JSON.stringify({ progress: done, total, message }).slice(1);
    const params = `{"progressToken":${token},${known}`;
    this.#tell(`{"jsonrpc":"2.0","method":"notifications/progress","params":${params}}`);
  }

  /** What a tool logs, when the client wants to hear what is as severe. */
  log(tool: string, level: LogLevel, data: unknown): void {
    const { level: least } = this.#wanted;
    if (least === undefined || this.#ended || !isAtLeast(level, least)) return;
    const params = { level, logger: tool, data: data ?? null };
    this.#tell(JSON.stringify({ jsonrpc: "2.0", method: "notifications/message", params }));
  }

  /** A request to the client. */
  request(id: string, method: string, params: object): void {
    this.#send(JSON.stringify({ jsonrpc: "2.0", id, method, params }));
  }

  /** Ends the stream with the answer, which leaves once its charge is on disk: a client needs nothing behind it. */
  async end(answer: string): Promise<undefined> {
    this.#ended = true;
    const sink = this.#sink ?? (await this.#open());
    this.#timer?.[Symbol.dispose]();
    await sink.end(undefined, Buffer.from(eventText(answer)));
    return undefined;
  }

  /** A client that does not read misses this, never a question or the answer. */
  #tell(json: string): void {
    if (!this.#full && this.#queued.length < maxQueuedEvents) this.#send(json);
  }

  #send(json: string): void {
    if (this.#sink === undefined) {
      this.#queued.push(eventText(json));
      // `end` waits for the same promise, and its caller learns of a failure there.
      this.#open().catch(() => {});
    } else {
      this.#full = !this.#sink.write(Buffer.from(eventText(json)));
    }
  }

  #open(): Promise<Sink> {
    this.#opening ??= this.#x.stream(200, headers).then((sink) => {
      this.#sink = sink;
      sink.onDrain = () => (this.#full = false);
      this.#timer = this.#clock.every(keepAliveMs, () => sink.write(keepAlive));
      for (const event of this.#queued) sink.write(Buffer.from(event));
      this.#queued = [];
      return sink;
    });
    return this.#opening;
  }
}
