/**
 * Progress and log messages of a running call, and questions to its client, as server-sent events. The stream opens
 * with the first event; a call without events is answered as plain JSON.
 */
import type { Clock, Exchange, Sink } from "sluice-gateway/plugin";
import type { LogLevel } from "sluice-gateway/services";
import { isAtLeast } from "./log-levels.ts";

/** `X-Accel-Buffering`: without it, nginx buffers the events. */
const headers: readonly string[] = [
  "content-type",
  "text/event-stream",
  "cache-control",
  "no-store",
  "x-accel-buffering",
  "no",
];
/** Proxies close streams that are silent for a minute or two. */
const keepAliveMs = 15_000;
const keepAlive = Buffer.from(": \n\n");
/** Further progress and log messages are discarded until the head has been sent. */
const maxQueuedEvents = 1000;

export interface WantedNotifications {
  readonly token?: string | undefined;
  readonly level?: LogLevel | undefined;
}

/** A line break would end the field. In JSON it is white space, which the JSON text of a tool may contain. */
export function eventText(json: string): string {
  return `event: message\ndata: ${json.replaceAll(/[\r\n]+/g, " ")}\n\n`;
}

export class EventStream {
  readonly #x: Exchange;
  readonly #clock: Clock;
  readonly #wanted: WantedNotifications;
  #opening: Promise<Sink> | undefined;
  #sink: Sink | undefined;
  #timer: Disposable | undefined;
  /** Events that were sent before the head had passed through the steps. */
  #queued: string[] = [];
  #last = -Infinity;
  #full = false;
  #ended = false;

  constructor(x: Exchange, clock: Clock, wanted: WantedNotifications) {
    this.#x = x;
    this.#clock = clock;
    this.#wanted = wanted;
  }

  get opened(): boolean {
    return this.#opening !== undefined;
  }

  /** Progress must increase with every notification, so one that does not increase it is discarded. */
  progress(done: number, total?: number, message?: string): void {
    const { token } = this.#wanted;
    if (token === undefined || this.#ended) return;
    if (!Number.isFinite(done) || done <= this.#last) return;
    this.#last = done;
    const known = JSON.stringify({ progress: done, total, message }).slice(1);
    const params = `{"progressToken":${token},${known}`;
    this.#notify(`{"jsonrpc":"2.0","method":"notifications/progress","params":${params}}`);
  }

  log(tool: string, level: LogLevel, data: unknown): void {
    const { level: minLevel } = this.#wanted;
    if (minLevel === undefined || this.#ended || !isAtLeast(level, minLevel)) return;
    const params = { level, logger: tool, data: data ?? null };
    this.#notify(JSON.stringify({ jsonrpc: "2.0", method: "notifications/message", params }));
  }

  request(id: string, method: string, params: object): void {
    this.#send(JSON.stringify({ jsonrpc: "2.0", id, method, params }));
  }

  /** The answer is sent after its charge has been written to disk. Nothing follows it. */
  async end(answer: string): Promise<undefined> {
    this.#ended = true;
    const sink = this.#sink ?? (await this.#open());
    this.#timer?.[Symbol.dispose]();
    await sink.end(undefined, Buffer.from(eventText(answer)));
    return undefined;
  }

  /**
   * The notification is discarded if the client does not read or too many events are queued. Questions and the answer
   * are always sent.
   */
  #notify(json: string): void {
    if (!this.#full && this.#queued.length < maxQueuedEvents) this.#send(json);
  }

  #send(json: string): void {
    if (this.#sink === undefined) {
      this.#queued.push(eventText(json));
      // `end` awaits the same promise and passes a failure on to its caller.
      this.#open().catch(() => {});
    } else {
      this.#full = !this.#sink.write(Buffer.from(eventText(json)));
      if (this.#full) this.#sink.onDrain ??= () => (this.#full = false);
    }
  }

  #open(): Promise<Sink> {
    this.#opening ??= this.#x.stream(200, headers).then((sink) => {
      this.#sink = sink;
      this.#timer = this.#clock.every(keepAliveMs, () => sink.write(keepAlive));
      for (const event of this.#queued) sink.write(Buffer.from(event));
      this.#queued = [];
      return sink;
    });
    return this.#opening;
  }
}
