/**
 * Progress of a call, and what its client is asked, as server-sent events. The stream opens with the first event: a
 * call that has none is answered as plain JSON.
 */
import type { Clock, Exchange, Sink } from "sluice-gateway/plugin";

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

export function eventText(json: string): string {
  return `event: message\ndata: ${json}\n\n`;
}

export class EventStream {
  readonly #x: Exchange;
  readonly #clock: Clock;
  /** The progress token as JSON text; undefined: the client wants to hear of none. */
  readonly #token: string | undefined;
  #opening: Promise<Sink> | undefined;
  #sink: Sink | undefined;
  #timer: Disposable | undefined;
  /** Written before the head has gone through the steps. */
  #early: string[] = [];
  #last = -Infinity;
  #full = false;
  #ended = false;

  constructor(x: Exchange, clock: Clock, token: string | undefined) {
    this.#x = x;
    this.#clock = clock;
    this.#token = token;
  }

  get opened(): boolean {
    return this.#opening !== undefined;
  }

  /** Must increase with every event; what does not is left out. */
  progress(done: number, total?: number, message?: string): void {
    if (this.#token === undefined || this.#ended) return;
    if (!Number.isFinite(done) || done <= this.#last) return;
    this.#last = done;
    const known = JSON.stringify({ progress: done, total, message }).slice(1);
    const params = `{"progressToken":${this.#token},${known}`;
    // A client that does not read misses progress, never a question or the answer.
    if (this.#full) return;
    this.#send(`{"jsonrpc":"2.0","method":"notifications/progress","params":${params}}`);
  }

  /** A request to the client. */
  request(id: string, method: string, params: object): void {
    this.#send(JSON.stringify({ jsonrpc: "2.0", id, method, params }));
  }

  /** Sends the answer and ends the stream. */
  async end(answer: string): Promise<void> {
    this.#ended = true;
    const sink = this.#sink ?? (await this.#open());
    this.#timer?.[Symbol.dispose]();
    sink.write(Buffer.from(eventText(answer)));
    await sink.end();
  }

  #send(json: string): void {
    if (this.#sink === undefined) {
      this.#early.push(eventText(json));
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
      for (const event of this.#early) sink.write(Buffer.from(event));
      this.#early = [];
      return sink;
    });
    return this.#opening;
  }
}
