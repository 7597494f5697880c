/** `ReceiptStore` in the data folder. A thread writes receipts in batches; reads are synchronous. */
import type { DatabaseSync, StatementSync } from "node:sqlite";
import { openComputePool, type ComputePool } from "sluice-gateway/compute";
import { threadModule } from "sluice-gateway/package-files";
import type { Clock, Host } from "sluice-gateway/plugin";
import type { Receipt } from "sluice-gateway/services";
import { text } from "sluice-gateway/store";
import type { ReceiptsJob } from "./receipts-job.ts";
import { openReceiptsDatabase, type ReceiptRow } from "./receipts-schema.ts";
import { receiptsKeptMs, type ReceiptStore } from "./stream-store.ts";

const module = threadModule("plugins/confidential/confidential-relay/receipts-job");

export class Receipts implements ReceiptStore {
  readonly #dataDir: string;
  readonly #clock: Clock;
  readonly #thread: ComputePool;
  readonly #db: DatabaseSync;
  /** A prepared statement, because it runs for every handshake. */
  readonly #hasSession: StatementSync;
  #waiting: { readonly row: ReceiptRow; readonly done: (isKept: boolean) => void }[] = [];
  /** Resolves when no receipt is waiting. Undefined while nothing is written. */
  #writing: Promise<void> | undefined;

  constructor(dataDir: string, clock: Clock, thread: ComputePool) {
    this.#dataDir = dataDir;
    this.#clock = clock;
    this.#thread = thread;
    this.#db = openReceiptsDatabase(dataDir);
    this.#hasSession = this.#db.prepare("SELECT 1 FROM receipts WHERE session = ? LIMIT 1");
  }

  keep(receipt: Receipt): Promise<boolean> {
    const { session, rid } = receipt;
    const row = { session, rid, at: this.#clock.now(), receipt: JSON.stringify(receipt) };
    const { promise, resolve } = Promise.withResolvers<boolean>();
    this.#waiting.push({ row, done: resolve });
    this.#writing ??= this.#write();
    return promise;
  }

  find(session: string, rid: number): Receipt | undefined {
    const query = "SELECT receipt FROM receipts WHERE session = ? AND rid = ?";
    const row = this.#db.prepare(query).get(session, rid);
    // Only `keep` writes receipts.
    return row === undefined ? undefined : (JSON.parse(text(row, "receipt")) as Receipt);
  }

  /** Returns whether there is a receipt of the session. */
  has(session: string): boolean {
    return this.#hasSession.get(session) !== undefined;
  }

  /** Resolves when the receipts that are waiting have been written and the files are closed. */
  async close(): Promise<void> {
    await this.#writing;
    await this.#thread.close();
    this.#db.close();
  }

  async #write(): Promise<void> {
    while (this.#waiting.length > 0) {
      const batch = this.#waiting;
      this.#waiting = [];
      const rows = batch.map(({ row }) => row);
      const job: ReceiptsJob = {
        dataDir: this.#dataDir,
        rows,
        keepFrom: this.#clock.now() - receiptsKeptMs,
      };
      const outcome = await this.#thread.run({ module, input: job, transfer: [] });
      for (const { done } of batch) done(outcome.ok);
    }
    this.#writing = undefined;
  }
}

/**
 * Opens the receipts of the data folder. They have their own thread, which has at most one job, because a client waits
 * for each receipt, and a queue that is full of other work must not refuse it. Throws StoreError if the data folder
 * cannot be used.
 */
export function openReceipts({
  store,
  clock,
  metrics,
}: Pick<Host, "store" | "clock" | "metrics">): Receipts {
  return new Receipts(store.folder, clock, openComputePool({ clock, metrics, threads: 1 }));
}
