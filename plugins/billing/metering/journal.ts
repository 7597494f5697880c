/**
 * The main thread's side of the journal: sends the records of one commit after another to the thread that writes them,
 * and resolves a promise when they are on disk.
 */
import { Worker } from "node:worker_threads";
import { threadModule } from "sluice-gateway/package-files";
import type { Clock, Log } from "sluice-gateway/plugin";
import { StoreError } from "sluice-gateway/store";
import type { JournalCommand, JournalMessage, JournalWorkerData } from "./journal-worker.ts";
import type { JournalMetrics } from "./metrics.ts";

const workerModule = threadModule("plugins/billing/metering/journal-worker");

export interface JournalOptions extends JournalWorkerData {
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: JournalMetrics;
  /** Called when the journal can be written again after a failure. */
  readonly onRecovered: () => void;
}

export class Journal {
  readonly #options: JournalOptions;
  readonly #worker: Worker;
  /** The commit in flight. */
  #commit: PromiseWithResolvers<void> | undefined;
  #rows = 0;
  /** Reason why the journal cannot be written. Undefined while it can be written. */
  failure: Error | undefined;
  #isProbing = false;
  #isClosed = false;
  #hasEnded = false;
  readonly #timer: Disposable;
  readonly #exited = Promise.withResolvers<void>();

  private constructor(options: JournalOptions, worker: Worker) {
    this.#options = options;
    this.#worker = worker;
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
    const workerData: JournalWorkerData = { dataDir, maxPages };
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
    return new Journal(options, worker);
  }

  get writable(): boolean {
    return this.failure === undefined && !this.#isClosed;
  }

  /** False if the thread has ended, so that nothing can be written until the gateway is started again. */
  get mayRecover(): boolean {
    return !this.#isClosed && !this.#hasEnded;
  }

  /**
   * Writes the records of one commit, of which only one may be in flight. Resolves when they are on disk. Rejects if they
   * are not.
   */
  write(records: Uint8Array<ArrayBuffer>, rows: number): Promise<void> {
    if (this.#hasEnded) return Promise.reject(this.failure ?? threadEnded());
    this.#commit = Promise.withResolvers<void>();
    this.#rows = rows;
    this.#send(records);
    return this.#commit.promise;
  }

  /** Ends the thread after the commit in flight. */
  async close(): Promise<void> {
    if (!this.#isClosed) {
      this.#isClosed = true;
      this.#timer[Symbol.dispose]();
      this.#send("close");
    }
    await this.#exited.promise;
  }

  #send(command: JournalCommand): void {
    this.#worker.postMessage(command);
  }

  #onMessage(message: JournalMessage): void {
    const { log, metrics, onRecovered } = this.#options;
    switch (message.kind) {
      case "committed":
        metrics.commitRows.observe(this.#rows);
        metrics.commitSeconds.observe(message.ms / 1000);
        if (this.failure !== undefined) this.#recover();
        this.#end()?.resolve();
        return;
      case "failed": {
        const { code, remedy } = message;
        this.#isProbing = false;
        metrics.failures.add(1);
        metrics.writable.set(0);
        if (this.failure === undefined) log.error({ code, remedy }, message.message);
        this.failure = new Error(message.message);
        this.#end()?.reject(this.failure);
        return;
      }
      case "recovered":
        this.#recover();
        return onRecovered();
      case "ready":
    }
  }

  #recover(): void {
    this.#isProbing = false;
    this.failure = undefined;
    this.#options.metrics.writable.set(1);
    this.#options.log.info({}, "the journal is writable again");
  }

  /** Returns the commit in flight, which has ended. */
  #end(): PromiseWithResolvers<void> | undefined {
    const commit = this.#commit;
    this.#commit = undefined;
    return commit;
  }

  /** Finds out whether a journal that has failed can be written again. */
  #probe(): void {
    if (this.failure === undefined || this.#isProbing || this.#hasEnded) return;
    this.#isProbing = true;
    this.#send("probe");
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
    this.#end()?.reject(this.failure ?? threadEnded());
    this.#exited.resolve();
  }
}

function threadEnded(): Error {
  return new Error("the journal thread has ended");
}
