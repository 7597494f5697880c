/**
 * Delivers every settled charge to the billing system (the sink) at least once and in the order of the commits. The
 * charges are the outbox. They are the only queue, so nothing is lost while the sink cannot be reached. A cursor in the
 * store marks the last delivered charge. Ids are stable, so the sink can drop duplicates after a crash by `source` and
 * `id`.
 */
import type { Clock, Counter, Log, Metrics } from "sluice-gateway/plugin";
import type { BatchHead, BatchRange } from "./batch.ts";
import type { Cursor } from "./cursor.ts";
import { withoutLabels } from "../metrics.ts";
import type { DeliveryResult } from "./send.ts";

export type Batch = BatchHead & { readonly events: Uint8Array };

export interface ExporterDeps {
  readonly cursor: Cursor;
  /** Undefined without charges. Rejects if they cannot be read now. */
  read(range: BatchRange): Promise<Batch | undefined>;
  /** Never rejects. */
  send(events: Uint8Array, signal: AbortSignal): Promise<DeliveryResult>;
  readonly batch: number;
  /** Time between two reads of a journal that has no new charges (milliseconds). */
  readonly everyMs: number;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: ExportMetrics;
}

const answerMs = 30_000;
/** The wait between two attempts is random between 0 and a limit (full jitter), which doubles each time. */
const firstWaitMs = 1_000;
const maxWaitMs = 300_000;
/** Wait after a refusal. The delivery is then tried again, because the sink or its key may have been corrected. */
const refusedWaitMs = 600_000;
const lagMs = 1_000;

export class Exporter {
  readonly #deps: ExporterDeps;
  readonly #closing = new AbortController();
  readonly #lagTimer: Disposable;
  /** Time of the oldest charge that is not delivered. Undefined if all are delivered. */
  #since: number | undefined;
  #wake: (() => void) | undefined;
  readonly #running: Promise<void>;
  /** Maximum number of events in the next batch. It shrinks after a refusal, until the refused event is alone. */
  #size: number;
  #failures = 0;

  constructor(deps: ExporterDeps) {
    this.#deps = deps;
    this.#size = deps.batch;
    this.#lagTimer = deps.clock.every(lagMs, () => this.#showLag());
    this.#running = this.#run();
  }

  /** Aborts the current delivery. The next start repeats it. */
  async close(): Promise<void> {
    this.#closing.abort();
    this.#lagTimer[Symbol.dispose]();
    this.#wake?.();
    await this.#running;
    // If this fails, another gateway takes over when the right of this one expires.
    await this.#deps.cursor.release().catch(() => {});
  }

  async #run(): Promise<void> {
    while (!this.#closing.signal.aborted) {
      const ms = await this.#turn();
      if (ms > 0 && !this.#closing.signal.aborted) await this.#wait(ms);
    }
  }

  #wait(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = this.#deps.clock.after(ms, resolve);
      this.#wake = () => {
        timer[Symbol.dispose]();
        resolve();
      };
    });
  }

  /** The age of the oldest charge grows while nothing is delivered. */
  #showLag(): void {
    const since = this.#since;
    const { clock, metrics } = this.#deps;
    metrics.lagSeconds.set(since === undefined ? 0 : Math.max(0, clock.now() - since) / 1000);
  }

  /** Resolves to the wait before the next batch in milliseconds. */
  async #turn(): Promise<number> {
    const { cursor, everyMs, log } = this.#deps;
    let batch: Batch | undefined;
    try {
      const taken = await cursor.take();
      batch = taken && (await this.#deps.read({ after: taken.after, limit: this.#size }));
    } catch (error) {
      if (!this.#closing.signal.aborted)
        log.error({ err: error }, "usage export: cannot read charges; trying again");
      return this.#backoff("journal", 0);
    }
    this.#since = batch?.since;
    this.#showLag();
    if (batch === undefined) {
      // All charges are delivered, or another gateway delivers them and shows whether it is stopped.
      this.#deps.metrics.stopped.set(0);
      return everyMs;
    }
    const sent = await this.#send(batch);
    if (this.#closing.signal.aborted && sent.kind !== "accepted") return 0;
    if (sent.kind === "accepted") return this.#accepted(batch);
    if (sent.kind === "refused") return this.#refused(batch, sent);
    if (this.#failures === 0)
      log.warn({ reason: sent.reason }, "usage export: delivery failed; trying again");
    return this.#backoff("sink", sent.afterMs);
  }

  async #send({ events }: Batch): Promise<DeliveryResult> {
    const late = new AbortController();
    using _timer = this.#deps.clock.after(answerMs, () => late.abort());
    return this.#deps.send(events, AbortSignal.any([this.#closing.signal, late.signal]));
  }

  async #accepted({ count, last, more }: Batch): Promise<number> {
    const { cursor, metrics, log, batch, everyMs } = this.#deps;
    if (this.#failures > 0) log.info({}, "usage export: delivery works again");
    this.#failures = 0;
    this.#size = Math.min(batch, this.#size * 2);
    metrics.stopped.set(0);
    metrics.delivered.add(count);
    try {
      await cursor.moveTo(last);
    } catch (error) {
      // The batch has been delivered. It is sent again only if the process ends before the next save.
      log.error({ err: error }, "usage export: cannot save the position of the last delivery");
    }
    if (more) return 0;
    this.#since = undefined;
    this.#showLag();
    return everyMs;
  }

  /** A refused charge is never skipped, so it blocks all charges after it. */
  #refused(
    { count, first }: Batch,
    { status, smaller }: { readonly status: number; readonly smaller: boolean },
  ): number {
    const { metrics, log } = this.#deps;
    metrics.failed("refused").add(1);
    if (smaller && count > 1) {
      this.#size = Math.ceil(count / 2);
      return 0;
    }
    metrics.stopped.set(1);
    // The next success is logged as a recovery.
    this.#failures++;
    const fields = count === 1 ? { status, charge: first } : { status };
    log.error(fields, "usage export has stopped: the sink refuses the charges");
    return refusedWaitMs;
  }

  #backoff(reason: "journal" | "sink", minMs: number): number {
    this.#deps.metrics.failed(reason).add(1);
    const maxMs = Math.min(maxWaitMs, firstWaitMs * 2 ** this.#failures);
    this.#failures++;
    return minMs + Math.ceil(Math.random() * maxMs);
  }
}

type ExportMetrics = ReturnType<typeof exportMetrics>;

export function exportMetrics(metrics: Metrics) {
  const failures = metrics.counter(
    "sluice_usage_export_failures_total",
    "Failed attempts to deliver usage, by reason: the sink failed, the sink refused, or the journal could not be read.",
    ["reason"],
  );
  const byReason = {
    sink: failures.with({ reason: "sink" }),
    refused: failures.with({ reason: "refused" }),
    journal: failures.with({ reason: "journal" }),
  };
  const { gauge, counter } = withoutLabels(metrics);
  return {
    lagSeconds: gauge(
      "sluice_usage_export_lag_seconds",
      "Age of the oldest charge that is not delivered. 0 if all charges are delivered.",
    ),
    stopped: gauge(
      "sluice_usage_export_stopped",
      "1 while delivery is stopped because the sink refuses the charges. An operator must act.",
    ),
    delivered: counter("sluice_usage_export_events_total", "Charges that the sink has accepted."),
    failed: (reason: keyof typeof byReason): Counter => byReason[reason],
  };
}
