/**
 * The main thread's side of the journal: writes records into the ring and resolves a promise when they are on disk.
 *
 * All records that are appended between two reads of the journal thread share one commit, one fsync and one promise.
 * The main thread therefore needs neither a message nor a promise per charge.
 */
import { availableParallelism } from "node:os";
import { Worker } from "node:worker_threads";
import { threadModule } from "sluice-gateway/package-files";
import type { Clock, Log } from "sluice-gateway/plugin";
import { StoreError } from "sluice-gateway/store";
import type { JournalMessage, JournalWorkerData } from "./journal-worker.ts";
import type { JournalMetrics } from "./metrics.ts";
import type { Durability } from "./options.ts";
import {
  maxNameBytes,
  maxRecordBytes,
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

const workerModule = threadModule("plugins/billing/metering/journal-worker");

/** Holds 30,000 charges, which is more than the gateway can make in one second while the disk hangs. */
const ringBytes = 4 * 1024 * 1024;
/**
 * Time for which the journal thread waits for more records after the first one of a group (milliseconds), unless
 * `fullBatchBytes` are waiting or no other charge is pending. On one core, an fsync takes the same time from the event
 * loop however many records it writes: with 32 clients, 6.5 µs of CPU per charge instead of 13. If the journal thread
 * has another core, waiting only delays answers (plugins/ledger/ledger/notes.md: 14 % more calls per second without
 * it).
 */
const batchWaitMs = availableParallelism() > 1 ? 0 : 0.5;
/** Size of a full batch: about 24 charges. */
const fullBatchBytes = 3 * 1024;
/**
 * Time for which deferred records stay in the main thread (milliseconds). A record with another priority also publishes
 * them.
 */
const deferMs = 4;

/**
 * Commit priority. `immediate`: a caller is waiting and no other charge is pending. `batched`: a caller is waiting and
 * other charges are pending. `deferred`: the commit may come a few milliseconds later.
 */
export type CommitPriority = "immediate" | "batched" | "deferred";

export interface JournalOptions {
  readonly dataDir: string;
  readonly durability: Durability;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: JournalMetrics;
  /** Numbers of the names that the journal already has, by name. */
  readonly names: ReadonlyMap<string, number>;
  /** Called with records that will never be on disk. The owner of the charges reverses them. */
  readonly onLost: (records: RecordCursor) => void;
  /** Only for tests: maximum size of the journal in pages of 4 KiB; writes beyond it fail with SQLITE_FULL. */
  readonly maxPages?: number;
}

/** Records appended since the last read of the journal thread, with the promise of their callers. */
interface Group {
  readonly start: number;
  end: number;
  /** Monotonic time in milliseconds. */
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
  /** Number of the last commit on disk. */
  lastCommit: number;
  /** Oldest first. New records join the last group. */
  readonly #groups: Group[] = [];
  /** Reason why the journal cannot be written. Undefined while it can be written. */
  #failure: Error | undefined;
  #retrying = false;
  #closed = false;
  #waitingRows = 0;
  #publishScheduled = false;
  #urgent = false;
  #deferred: NodeJS.Timeout | undefined;
  readonly #timer: Disposable;
  readonly #exited = Promise.withResolvers<void>();

  private constructor(
    options: JournalOptions,
    ring: RingWriter,
    worker: Worker,
    lastCommit: number,
  ) {
    this.#options = options;
    this.lastCommit = lastCommit;
    this.#ring = ring;
    this.#names = new Map(options.names);
    for (const id of this.#names.values()) this.#nextName = Math.max(this.#nextName, id + 1);
    worker.on("message", (message: JournalMessage) => this.#onMessage(message));
    worker.on("error", (error: unknown) => {
      this.#onExit(error instanceof Error ? error : new Error(String(error)));
    });
    worker.on("exit", () => this.#onExit(undefined));
    this.#timer = options.clock.every(1_000, () => this.#everySecond());
    options.metrics.writable.set(1);
  }

  /** Starts the journal thread. `JournalFile.recover` must have run before. Rejects with StoreError. */
  static async open(options: JournalOptions): Promise<Journal> {
    const ring = makeRing(ringBytes);
    const { dataDir, maxPages } = options;
    const workerData: JournalWorkerData = { ring, dataDir, batchWaitMs, fullBatchBytes, maxPages };
    const worker = new Worker(new URL(workerModule), { workerData });
    const lastCommit = await new Promise<number>((resolve, reject) => {
      const exited = (): void => reject(new Error("the journal thread ended while it started"));
      worker.once("error", reject);
      worker.once("exit", exited);
      worker.once("message", (message: JournalMessage) => {
        worker.off("error", reject);
        worker.off("exit", exited);
        if (message.kind === "ready") return resolve(message.seq);
        if (message.kind !== "failed") return exited();
        const { code, remedy } = message;
        reject(new StoreError(code, message.message, remedy));
      });
    });
    return new Journal(options, new RingWriter(ring, fullBatchBytes), worker, lastCommit);
  }

  /** False while the journal cannot be written, or while so many records wait that the disk must be hanging. */
  get writable(): boolean {
    return this.#failure === undefined && !this.#closed && this.#ring.free > this.#ring.size / 2;
  }

  /**
   * Returns true if the ring has room for `records` records and their names. If it returns false, nothing may be
   * appended.
   */
  hasRoom(records: number): boolean {
    if (this.#closed || (this.#failure !== undefined && !this.#isAsync)) return false;
    // A charge may introduce seven names: key, workspace, surface, method, model, outcome and route. Less than one record is wasted at the end of the ring.
    return this.#ring.free >= records * (maxRecordBytes + 7 * maxNameBytes) + maxRecordBytes;
  }

  /**
   * Returns the number of a name. A new name is appended to the ring, in the same commit as the record that uses it.
   */
  nameNumber(name: string): number {
    const known = this.#names.get(name);
    if (known !== undefined) return known;
    const id = this.#nextName++;
    this.#names.set(name, id);
    this.#ring.advance(writeName(this.#ring, this.#ring.claim(maxNameBytes), id, name));
    return id;
  }

  /** Appends a record without publishing it. The caller must have called `hasRoom`. */
  appendCharge(fields: ChargeFields): void {
    this.#ring.advance(writeCharge(this.#ring, this.#ring.claim(maxRecordBytes), fields));
  }

  appendIntent(fields: IntentFields): void {
    this.#ring.advance(writeIntent(this.#ring, this.#ring.claim(maxRecordBytes), fields));
  }

  appendClosed(time: number, intent: number, why: number): void {
    const start = this.#ring.claim(maxRecordBytes);
    this.#ring.advance(writeClosed(this.#ring, start, time, intent, why));
  }

  /**
   * Publishes the appended records to the journal thread, which writes them in one commit. `rows`: number of records
   * since the last call. The promise resolves when they are on disk. It rejects if they could not be written and never
   * will be.
   */
  publish(rows: number, priority: CommitPriority): Promise<void> {
    const ring = this.#ring;
    let group = this.#groups.at(-1);
    if (group === undefined || ring.hasTakenBeyond(group.start)) {
      group = newGroup(ring.published, this.#options.clock.monotonic());
      this.#groups.push(group);
    }
    group.end = ring.next;
    this.#waitingRows += rows;
    if (priority === "deferred") {
      this.#deferred ??= setTimeout(this.#publishAll, deferMs);
      return group.promise;
    }
    // If one record is immediate, all of them are.
    this.#urgent ||= priority === "immediate";
    // Published at the end of the turn of the event loop, so that all charges of one turn need one wake-up.
    if (!this.#publishScheduled) {
      this.#publishScheduled = true;
      setImmediate(this.#publishAll);
    }
    return group.promise;
  }

  readonly #publishAll = (): void => {
    clearTimeout(this.#deferred);
    this.#deferred = undefined;
    this.#publishScheduled = false;
    this.#ring.publish(this.#urgent);
    this.#urgent = false;
  };

  /** Resolves when everything published so far is on disk. */
  flush(): Promise<void> {
    this.#publishAll();
    return this.#groups.at(-1)?.promise ?? Promise.resolve();
  }

  /** Writes all pending records and ends the thread. */
  async close(): Promise<void> {
    if (this.#closed) return this.#exited.promise;
    this.#closed = true;
    this.#timer[Symbol.dispose]();
    this.#publishAll();
    // The callers have been notified of a failure.
    if (this.#failure === undefined) await this.flush().catch(() => {});
    if (this.#failure === undefined || this.#isAsync) this.#ring.keepAll();
    this.#ring.send(command.close);
    await this.#exited.promise;
  }

  get #isAsync(): boolean {
    return this.#options.durability === "async";
  }

  #onMessage(message: JournalMessage): void {
    const { log, metrics } = this.#options;
    switch (message.kind) {
      case "committed":
        this.#ring.freeUpTo(message.upTo);
        this.lastCommit = message.seq;
        this.#waitingRows -= message.rows;
        metrics.commitRows.observe(message.rows);
        metrics.commitSeconds.observe(message.ms / 1000);
        this.#resolveGroups();
        return;
      case "failed":
        return this.#onFailed(message);
      case "recovered":
        this.#retrying = false;
        this.#failure = undefined;
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

  #onFailed({ code, message, remedy }: JournalMessage & { kind: "failed" }): void {
    const { log, metrics } = this.#options;
    this.#retrying = false;
    metrics.failures.add(1);
    metrics.writable.set(0);
    if (this.#failure === undefined) log.error({ code, remedy }, message);
    this.#failure = new Error(message);
    if (!this.#isAsync) this.#reverse(this.#failure);
  }

  /** Reverses the published records that are not on disk, and rejects the promises of their callers. */
  #reverse(error: Error): void {
    this.#publishAll();
    const { freed, published, size, bytes } = this.#ring;
    const start = freed % size;
    const length = published - freed;
    const { log, onLost } = this.#options;
    try {
      onLost(new RecordCursor(bytes, start, Math.min(start + length, size)));
      if (start + length > size) onLost(new RecordCursor(bytes, 0, start + length - size));
    } catch (lost) {
      // This runs in the message handler of the thread. The callers must still be notified.
      log.error(
        { err: lost },
        "charges could not be written to the journal, and could not be reversed",
      );
    }
    this.#ring.discardAll();
    this.#waitingRows = 0;
    for (const group of this.#groups.splice(0)) group.reject(error);
  }

  /** Runs every second: retries a failed journal and measures how far the disk is behind. */
  #everySecond(): void {
    const { clock, metrics } = this.#options;
    const since = this.#groups[0]?.since;
    metrics.waitingRows.set(this.#waitingRows);
    metrics.waitingSeconds.set(since === undefined ? 0 : (clock.monotonic() - since) / 1000);
    // One retry at a time: the thread reads commands only while it has failed.
    if (this.#failure === undefined || this.#retrying) return;
    this.#retrying = true;
    if (this.#isAsync) this.#ring.keepAll();
    this.#ring.send(command.retry);
  }

  /** The thread has ended. Nothing can be written until the gateway is started again. */
  #onExit(error: Error | undefined): void {
    const { log, metrics } = this.#options;
    const lost = this.#groups.length > 0;
    if (this.#closed && error === undefined && !lost) return this.#exited.resolve();
    if (error !== undefined || !this.#closed) {
      log.error({ err: error }, "the journal thread has ended; restart the gateway");
    }
    metrics.writable.set(0);
    this.#retrying = true;
    this.#failure ??= error ?? new Error("the journal thread has ended");
    if (lost) {
      log.error({ rows: this.#waitingRows }, "charges could not be written to the journal");
      this.#reverse(this.#failure);
    }
    this.#exited.resolve();
  }
}

function newGroup(start: number, since: number): Group {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  // Callers that wait get the rejection. Without a caller it must not be an unhandled rejection.
  promise.catch(() => {});
  return { start, end: start, since, promise, resolve, reject };
}
