/** The main thread's side of the journal: passes one commit after another to the thread that writes them. */
import { Worker } from "node:worker_threads";
import { threadModule } from "sluice-gateway/internal/package-files";
import type { Clock, Log } from "sluice-gateway/plugin";
import { StoreError } from "sluice-gateway/internal/store";
import { command, word, type JournalMessage, type JournalWorkerData } from "./journal-worker.ts";
import type { MeterMetrics } from "./metrics.ts";

const workerModule = threadModule("plugins/billing/metering/journal-worker");

/** Size of the memory for records in bytes: at the start, which is enough for 500 typical charges, and at most. */
const memoryBytes = { initial: 64 * 1024, max: 256 * 1024 * 1024 };

export interface JournalOptions extends Pick<JournalWorkerData, "dataDir" | "maxPages"> {
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: MeterMetrics;
}

export class Journal {
  readonly #options: JournalOptions;
  readonly #control: Int32Array;
  /** The records of the next commit. They may be changed while none is in flight. */
  readonly records: SharedArrayBuffer;
  #commit: PromiseWithResolvers<void> | undefined;
  /** Called when the journal can be written again after a failure, and when its thread has ended. */
  onChange: (() => void) | undefined;
  /** Undefined while the journal can be written. */
  failure: Error | undefined;
  #probing: PromiseWithResolvers<void> | undefined;
  #commands = 0;
  #isClosed = false;
  #hasEnded = false;
  readonly #timer: Disposable;
  readonly #exited = Promise.withResolvers<void>();

  private constructor(options: JournalOptions, worker: Worker, data: JournalWorkerData) {
    this.#options = options;
    this.records = data.records;
    this.#control = new Int32Array(data.control);
    worker.on("message", (message: JournalMessage) => this.#onMessage(message));
    worker.on("error", (error: unknown) => {
      this.#onExit(error instanceof Error ? error : new Error(String(error)));
    });
    worker.on("exit", () => this.#onExit(undefined));
    this.#timer = options.clock.every(1_000, () => this.#probe());
    options.metrics.writable.set(1);
  }

  /** Starts the journal thread. `JournalFile.recover` must have run before. Rejects with StoreError. */
  static async open(options: JournalOptions): Promise<Journal> {
    const { dataDir, maxPages } = options;
    const memory = {
      records: new SharedArrayBuffer(memoryBytes.initial, { maxByteLength: memoryBytes.max }),
      control: new SharedArrayBuffer(16),
    };
    const workerData: JournalWorkerData = { dataDir, maxPages, ...memory };
    const worker = new Worker(new URL(workerModule), { workerData });
    await new Promise<void>((resolve, reject) => {
      const exited = (): void => reject(new Error("the journal thread ended while it started"));
      worker.once("error", reject);
      worker.once("exit", exited);
      worker.once("message", (message: JournalMessage) => {
        worker.off("error", reject);
        worker.off("exit", exited);
        if (message.kind === "ready") return resolve();
        if (message.kind !== "failed") return exited();
        const { code, remedy } = message;
        reject(new StoreError(code, message.message, remedy));
      });
    });
    return new Journal(options, worker, workerData);
  }

  get writable(): boolean {
    return this.failure === undefined && !this.#isClosed;
  }

  /** False if the thread has ended, so that nothing can be written until the gateway is started again. */
  get mayRecover(): boolean {
    return !this.#isClosed && !this.#hasEnded;
  }

  /** Only one commit may be in flight, and no probe. Resolves when the records are on disk, else rejects. */
  write(bytes: number, rows: number): Promise<void> {
    if (this.#isClosed || this.#hasEnded) return Promise.reject(this.failure ?? threadEnded());
    if (this.#commit !== undefined || this.#probing !== undefined) {
      return Promise.reject(new Error("the journal thread is busy"));
    }
    const commit = Promise.withResolvers<void>();
    this.#commit = commit;
    const commits = Atomics.load(this.#control, word.commits);
    const { value } = Atomics.waitAsync(this.#control, word.commits, commits);
    // After a failure, the promise resolves with a later commit.
    void Promise.resolve(value).then(() => {
      if (this.#commit === commit) this.#onCommitted(rows);
    });
    this.#control[word.bytes] = bytes;
    this.#send(command.write);
    return commit.promise;
  }

  /** Resolves when no probe of a journal that has failed is running. */
  get probed(): Promise<void> | undefined {
    return this.#probing?.promise;
  }

  async close(): Promise<void> {
    if (!this.#isClosed) {
      this.#isClosed = true;
      this.#timer[Symbol.dispose]();
      this.#send(command.close);
    }
    await this.#exited.promise;
  }

  #send(next: number): void {
    this.#commands++;
    Atomics.store(this.#control, word.command, 4 * this.#commands + next);
    Atomics.notify(this.#control, word.command);
  }

  #onCommitted(rows: number): void {
    const { metrics } = this.#options;
    metrics.commitRows.observe(rows);
    metrics.commitSeconds.observe(Atomics.load(this.#control, word.micros) / 1e6);
    if (this.failure !== undefined) this.#recover();
    this.#end()?.resolve();
  }

  #onMessage(message: JournalMessage): void {
    const { log, metrics } = this.#options;
    switch (message.kind) {
      case "failed": {
        const { code, remedy } = message;
        metrics.failures.add(1);
        metrics.writable.set(0);
        if (this.failure === undefined) log.error({ code, remedy }, message.message);
        this.failure = new Error(message.message);
        this.#endProbe();
        this.#end()?.reject(this.failure);
        return;
      }
      case "recovered":
        this.#recover();
        return this.onChange?.();
      case "ready":
    }
  }

  #recover(): void {
    this.#endProbe();
    this.failure = undefined;
    this.#options.metrics.writable.set(1);
    this.#options.log.info({}, "the journal is writable again");
  }

  #endProbe(): void {
    this.#probing?.resolve();
    this.#probing = undefined;
  }

  #end(): PromiseWithResolvers<void> | undefined {
    const commit = this.#commit;
    this.#commit = undefined;
    return commit;
  }

  #probe(): void {
    if (this.failure === undefined || this.#probing !== undefined || this.#hasEnded) return;
    if (this.#commit !== undefined) return;
    this.#probing = Promise.withResolvers();
    this.#send(command.probe);
  }

  #onExit(error: Error | undefined): void {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    const { log, metrics } = this.#options;
    if (error !== undefined || !this.#isClosed) {
      log.error({ err: error }, "the journal thread has ended; restart the gateway");
      metrics.writable.set(0);
      this.failure ??= error ?? threadEnded();
    }
    this.#endProbe();
    this.#end()?.reject(this.failure ?? threadEnded());
    this.onChange?.();
    this.#exited.resolve();
  }
}

function threadEnded(): Error {
  return new Error("the journal thread has ended");
}
