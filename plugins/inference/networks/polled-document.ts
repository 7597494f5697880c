/** A JSON document that is polled. The last valid value is used until a newer one has been read. */
import { sendRequest } from "sluice-gateway/internal/http";
import type { Clock, Counter, Gauge, Log, Metrics } from "sluice-gateway/plugin";
import { errorCode, parseJson } from "sluice-gateway/internal/toolkit";

export interface DocumentOptions<T> {
  /** Name for log and metrics, such as `confidential-classic status`. */
  readonly name: string;
  readonly url: string;
  readonly headers?: Readonly<Record<string, string>> | undefined;
  readonly everyMs: number;
  read(value: unknown): T | undefined;
  readonly problemOf?: (value: unknown) => string;
  readonly changed: (value: T) => void;
  /** `reason`: such as `status 401` or `ECONNREFUSED`. */
  readonly failed?: (reason: string) => void;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
  /** Returns a number from 0 to 1; for tests. */
  readonly random?: () => number;
}

/**
 * Fraction by which readings are shifted at random, so that replicas that started together do not send their requests
 * together.
 */
const jitter = 0.1;
/** Maximum interval after failures; the interval doubles with each failure. */
const maxIntervalMs = 60_000;
/** Maximum interval until the first successful reading, because the server may have just been started. */
const firstReadingMs = 2_000;
const timeoutMs = 5_000;
const maxBytes = 4 * 1024 * 1024;

type Fetched =
  | { readonly ok: true; readonly value: unknown }
  | { readonly ok: false; readonly reason: string };

export class PolledDocument<T> {
  /** Resolves after the first reading, successful or not. */
  readonly firstReading: Promise<void>;
  readonly #options: DocumentOptions<T>;
  #reading = new AbortController();
  #closed = false;
  readonly #readAt: Gauge;
  readonly #failures: Counter;
  #timer: Disposable | undefined;
  #failed = 0;
  #hasValue = false;

  constructor(options: DocumentOptions<T>) {
    const { metrics, name } = options;
    this.#options = options;
    this.#readAt = metrics
      .gauge(
        "sluice_polled_document_read_timestamp_seconds",
        "Unix time of the last successful read of a polled document. 0 if it was never read.",
        ["document"],
        { isSameInThreads: true },
      )
      .with({ document: name });
    this.#readAt.set(0);
    this.#failures = metrics
      .counter("sluice_polled_document_failures_total", "Failed reads of polled documents.", [
        "document",
      ])
      .with({ document: name });
    this.firstReading = this.#poll();
  }

  close(): void {
    this.#closed = true;
    this.#readAt.remove();
    this.#reading.abort();
    this.#timer?.[Symbol.dispose]();
  }

  async #poll(): Promise<void> {
    const outcome = await this.#fetch();
    if (this.#closed) return;
    try {
      this.#apply(outcome);
    } catch (error) {
      // Nothing waits for this reading, and the next one follows in any case.
      this.#failed++;
      this.#options.log.error(
        { err: error, ...this.#about },
        "the value of a polled document could not be used",
      );
    }
    this.#timer = this.#options.clock.after(this.#pauseMs(), () => void this.#poll());
  }

  #apply(outcome: Fetched): void {
    const { changed, clock, failed, problemOf, log } = this.#options;
    const value = outcome.ok ? this.#options.read(outcome.value) : undefined;
    if (value === undefined) {
      this.#failures.add(1);
      const reason = outcome.ok
        ? (problemOf?.(outcome.value) ?? "it does not have the expected content")
        : outcome.reason;
      failed?.(reason);
      if (this.#failed++ > 0) return;
      const message = this.#hasValue
        ? "a polled document could not be read; the last value stays in use"
        : "a polled document could not be read; it is read again every two seconds";
      return log.warn({ ...this.#about, reason }, message);
    }
    if (this.#failed > 0) log.info(this.#about, "a polled document can be read again");
    this.#failed = 0;
    this.#hasValue = true;
    this.#readAt.set(clock.now() / 1000);
    changed(value);
  }

  /** The address without query and credentials, which may be secrets. */
  get #about(): { readonly document: string; readonly address: string } {
    const { name, url } = this.#options;
    const { origin, pathname } = new URL(url);
    return { document: name, address: origin + pathname };
  }

  #pauseMs(): number {
    const { everyMs, random = Math.random } = this.#options;
    const slowest = this.#hasValue
      ? Math.max(maxIntervalMs, everyMs)
      : Math.min(firstReadingMs, everyMs);
    const pause = Math.min(everyMs * 2 ** Math.max(0, this.#failed - 1), slowest);
    return pause * (1 + jitter * (2 * random() - 1));
  }

  async #fetch(): Promise<Fetched> {
    const reading = new AbortController();
    this.#reading = reading;
    let timedOut = false;
    using _timeout = this.#options.clock.after(timeoutMs, () => {
      timedOut = true;
      reading.abort();
    });
    try {
      const bytes = await this.#bytes(reading.signal);
      if (typeof bytes === "string") return { ok: false, reason: bytes };
      return { ok: true, value: parseJson(bytes.toString("utf8")) };
    } catch (error) {
      return { ok: false, reason: reasonOf(error, timedOut) };
    }
  }

  async #bytes(signal: AbortSignal): Promise<Buffer | string> {
    const { url, headers } = this.#options;
    const { statusCode, body, dump } = await sendRequest(url, {
      headers: { accept: "application/json", ...headers },
      signal,
    });
    if (statusCode !== 200) {
      await dump();
      return `status ${statusCode}`;
    }
    const pieces: Buffer[] = [];
    let bytes = 0;
    for await (const chunk of body) {
      bytes += chunk.length;
      if (bytes > maxBytes) return `more than ${maxBytes} bytes`;
      pieces.push(chunk);
    }
    return Buffer.concat(pieces);
  }
}

/** Returns a short reason for the log. Error messages are not used, because they may quote what a server sent. */
function reasonOf(error: unknown, timedOut: boolean): string {
  if (timedOut) return `no answer within ${timeoutMs} ms`;
  if (error instanceof SyntaxError) return "it is not JSON";
  return errorCode(error) ?? "it could not be fetched";
}
