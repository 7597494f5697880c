/**
 * The main thread's side of the journal: writes records into the ring, and keeps the promises of their being on disk.
 *
 * What is appended between two picks of the journal thread shares one commit, one fsync and one promise, so the main
 * thread pays neither a message nor a promise for each charge.
 */
import { availableParallelism } from "node:os";
import { Worker } from "node:worker_threads";
import type { Clock } from "../../../src/services/clock.ts";
import type { Log } from "../../../src/services/log.ts";
import { StoreError } from "../../../src/store/store-error.ts";
import type { JournalMessage, JournalWorkerData } from "./journal-worker.ts";
import type { JournalMetrics } from "./metrics.ts";
import {
  nameBytesMax,
  recordBytesMax,
  writeCharge,
  writeClosed,
  writeIntent,
  writeName,
  type ChargeFields,
  type IntentFields,
  RecordCursor,
} from "./records.ts";
import { RingWriter } from "./ring-writer.ts";
import { command, makeRing } from "./ring.ts";

/** Holds 30,000 charges: a second of a hanging disk at more than the gateway can do. */
const ringBytes = 4 * 1024 * 1024;
/**
 * How long the first record of a group waits for company (milliseconds), unless `enoughBytes` wait or nobody else is
 * about to charge. On one core an fsync takes from the event loop what it costs, whatever it carries: with 32 clients
 * 6.5 µs of CPU a charge instead of 13. Where the journal's thread has another core, waiting only makes answers later
 * (bench/notes/2026-11-node-proxy.md: 14 % more calls a second without it).
 */
const pauseMs = availableParallelism() > 1 ? 0 : 0.5;
/** About 24 charges. */
const enoughBytes = 3 * 1024;
/** How long what nobody waits for stays on this side (milliseconds): the next that is waited for takes it along. */
const lingerMs = 4;

/**
 * How much haste records have. `now`: somebody waits, and nobody else is about to join their commit. `soon`: others
 * are. `later`: a few milliseconds do not matter.
 */
export type Haste = "now" | "soon" | "later";

export interface JournalOptions {
  readonly dataDir: string;
  readonly durability: "settled" | "async";
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: JournalMetrics;
  /** Names that the journal knows already, to their numbers. */
  readonly names: ReadonlyMap<string, number>;
  /** The records in `bytes` will never be on disk: whoever appended them takes their effect back. */
  readonly onLost: (records: RecordCursor) => void;
  /** Tests only: SQLITE_FULL beyond so many pages of 4 KiB. */
  readonly maxPages?: number;
}

/** Records appended since the journal thread's last pick, and those who wait for them. */
interface Group {
  readonly start: number;
  end: number;
  /** Milliseconds, monotonic. */
  readonly since: number;
  readonly promise: Promise<void>;
  readonly resolve: () => void;
  readonly reject: (error: Error) => void;
}

export class Journal {
  readonly #options: JournalOptions;
  readonly #ring: RingWriter;
  readonly #names: Map<string, number>;
  #nextName = 1;
  /** Oldest first; the last one is open for more. */
  readonly #groups: Group[] = [];
  /** Set while the journal cannot be written. */
  #down: Error | undefined;
  #retrying = false;
  #ended = false;
  #waitingRows = 0;
  #handingOver = false;
  #urgent = false;
  #lingering: NodeJS.Timeout | undefined;
  readonly #tick: Disposable;
  readonly #exited = Promise.withResolvers<void>();

  private constructor(options: JournalOptions, ring: RingWriter, worker: Worker) {
    this.#options = options;
    this.#ring = ring;
    this.#names = new Map(options.names);
    for (const id of this.#names.values()) this.#nextName = Math.max(this.#nextName, id + 1);
    worker.on("message", (message: JournalMessage) => this.#heard(message));
    worker.on("error", (error: unknown) => {
      this.#exit(error instanceof Error ? error : new Error(String(error)));
    });
    worker.on("exit", () => this.#exit(undefined));
    this.#tick = options.clock.every(1_000, () => this.#everySecond());
    options.metrics.writable.set(1);
  }

  /** Starts the thread on a journal that `recover` has brought in order. Rejects with StoreError. */
  static async open(options: JournalOptions): Promise<Journal> {
    const ring = makeRing(ringBytes);
    const { dataDir, maxPages } = options;
    const workerData: JournalWorkerData = { ring, dataDir, pauseMs, enoughBytes, maxPages };
    const source = import.meta.url.endsWith(".ts") ? "./journal-worker.ts" : "./journal-worker.js";
    const worker = new Worker(new URL(source, import.meta.url), { workerData });
    await new Promise<void>((resolve, reject) => {
      const exited = (): void => reject(new Error("the journal thread ended while it started"));
      worker.once("error", reject);
      worker.once("exit", exited);
      worker.once("message", (message: JournalMessage) => {
        worker.off("error", reject);
        worker.off("exit", exited);
        if (message.kind !== "failed") return resolve();
        const { code, remedy } = message;
        reject(new StoreError(code, message.message, remedy));
      });
    });
    return new Journal(options, new RingWriter(ring, enoughBytes), worker);
  }

  /** False while nothing can be written, or so much waits that the disk must be hanging. */
  get writable(): boolean {
    return this.#down === undefined && !this.#ended && this.#ring.free > this.#ring.size / 2;
  }

  /** Room for `records` records and the names that they bring. Without it nothing may be appended. */
  hasRoom(records: number): boolean {
    if (this.#ended || (this.#down !== undefined && !this.#isAsync)) return false;
    // A charge may bring five names; less than one record is wasted at the ring's end.
    return this.#ring.free >= records * (recordBytesMax + 5 * nameBytesMax) + recordBytesMax;
  }

  /** The number of a name, introducing it where it is new. It goes into the same commit as the record that uses it. */
  nameNumber(name: string): number {
    const known = this.#names.get(name);
    if (known !== undefined) return known;
    const id = this.#nextName++;
    this.#names.set(name, id);
    this.#ring.advance(writeName(this.#ring, this.#ring.claim(nameBytesMax), id, name));
    return id;
  }

  /** Appends a record, not published yet. The caller has asked `hasRoom`. */
  charge(fields: ChargeFields): void {
    this.#ring.advance(writeCharge(this.#ring, this.#ring.claim(recordBytesMax), fields));
  }

  intent(fields: IntentFields): void {
    this.#ring.advance(writeIntent(this.#ring, this.#ring.claim(recordBytesMax), fields));
  }

  closed(time: number, intent: number, why: number): void {
    const start = this.#ring.claim(recordBytesMax);
    this.#ring.advance(writeClosed(this.#ring, start, time, intent, why));
  }

  /**
   * Hands `rows` records to the journal thread, in one commit with all that was appended since the last call. The
   * promise resolves when they are on disk; it rejects when they could not be written and never will be.
   */
  publish(rows: number, haste: Haste): Promise<void> {
    const ring = this.#ring;
    let group = this.#groups.at(-1);
    if (group === undefined || ring.hasTakenBeyond(group.start)) {
      group = newGroup(ring.published, this.#options.clock.monotonic());
      this.#groups.push(group);
    }
    group.end = ring.next;
    this.#waitingRows += rows;
    if (haste === "later") {
      this.#lingering ??= setTimeout(this.#handOver, lingerMs);
      return group.promise;
    }
    // One that cannot wait makes all of them go.
    this.#urgent ||= haste === "now";
    // At the end of the event loop's turn: what settles in one turn travels together, for one wake-up.
    if (!this.#handingOver) {
      this.#handingOver = true;
      setImmediate(this.#handOver);
    }
    return group.promise;
  }

  readonly #handOver = (): void => {
    clearTimeout(this.#lingering);
    this.#lingering = undefined;
    this.#handingOver = false;
    this.#ring.publish(this.#urgent);
    this.#urgent = false;
  };

  /** Resolves when all that was published until now is on disk. */
  flush(): Promise<void> {
    this.#handOver();
    return this.#groups.at(-1)?.promise ?? Promise.resolve();
  }

  /** Writes what there is and ends the thread. */
  async close(): Promise<void> {
    if (this.#ended) return this.#exited.promise;
    this.#ended = true;
    this.#tick[Symbol.dispose]();
    this.#handOver();
    // What fails now has been told to those who wait.
    if (this.#down === undefined) await this.flush().catch(() => {});
    if (this.#down === undefined || this.#isAsync) this.#ring.keepAll();
    this.#ring.tell(command.close);
    await this.#exited.promise;
  }

  get #isAsync(): boolean {
    return this.#options.durability === "async";
  }

  #heard(message: JournalMessage): void {
    const { log, metrics } = this.#options;
    switch (message.kind) {
      case "committed":
        this.#ring.free32(message.upTo);
        this.#waitingRows -= message.rows;
        metrics.commitRows.observe(message.rows);
        metrics.commitSeconds.observe(message.ms / 1000);
        this.#resolveGroups();
        return;
      case "failed":
        return this.#failed(message);
      case "recovered":
        this.#retrying = false;
        this.#down = undefined;
        metrics.writable.set(1);
        log.info({}, "the journal is writable again");
        return;
      case "ready":
      case "closed":
    }
  }

  #resolveGroups(): void {
    const { freed } = this.#ring;
    let resolved = 0;
    for (const group of this.#groups) {
      if (group.end > freed) break;
      group.resolve();
      resolved++;
    }
    this.#groups.splice(0, resolved);
  }

  #failed({ code, message, remedy }: JournalMessage & { kind: "failed" }): void {
    const { log, metrics } = this.#options;
    this.#retrying = false;
    metrics.failures.add(1);
    metrics.writable.set(0);
    if (this.#down === undefined) log.error({ code, remedy }, message);
    this.#down = new Error(message);
    if (!this.#isAsync) this.#lose(this.#down);
  }

  /** Takes back what was published and is not on disk, and says so to all who wait. */
  #lose(error: Error): void {
    this.#handOver();
    const { freed, published, size, bytes } = this.#ring;
    const start = freed % size;
    const length = published - freed;
    const { log, onLost } = this.#options;
    try {
      onLost(new RecordCursor(bytes, start, Math.min(start + length, size)));
      if (start + length > size) onLost(new RecordCursor(bytes, 0, start + length - size));
    } catch (lost) {
      // This runs in the thread's message handler. Those who wait must still be notified.
      log.error(
        { err: lost },
        "charges could not be written to the journal, and could not be reversed",
      );
    }
    this.#ring.discardAll();
    this.#waitingRows = 0;
    for (const group of this.#groups.splice(0)) group.reject(error);
  }

  /** Every second: tries a failed journal again, and measures how far the disk is behind. */
  #everySecond(): void {
    const { clock, metrics } = this.#options;
    const since = this.#groups[0]?.since;
    metrics.waitingRows.set(this.#waitingRows);
    metrics.waitingSeconds.set(since === undefined ? 0 : (clock.monotonic() - since) / 1000);
    // One try at a time: the thread takes a command only while it has failed.
    if (this.#down === undefined || this.#retrying) return;
    this.#retrying = true;
    if (this.#isAsync) this.#ring.keepAll();
    this.#ring.tell(command.retry);
  }

  /** The thread is gone: without it nothing can be written until the gateway is started again. */
  #exit(error: Error | undefined): void {
    const { log, metrics } = this.#options;
    const lost = this.#groups.length > 0;
    if (this.#ended && error === undefined && !lost) return this.#exited.resolve();
    if (error !== undefined || !this.#ended) {
      log.error({ err: error }, "the journal thread has ended; restart the gateway");
    }
    metrics.writable.set(0);
    this.#retrying = true;
    this.#down ??= error ?? new Error("the journal thread has ended");
    if (lost) {
      log.error({ rows: this.#waitingRows }, "charges could not be written to the journal");
      this.#lose(this.#down);
    }
    this.#exited.resolve();
  }
}

function newGroup(start: number, since: number): Group {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  // Those who wait see the rejection; where nobody does, it is no crash.
  promise.catch(() => {});
  return { start, end: start, since, promise, resolve, reject };
}
