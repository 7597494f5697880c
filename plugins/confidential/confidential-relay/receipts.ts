/**
 * Stores receipts in the data folder. A thread writes them in batches; reads are synchronous. Receipts remain after
 * their key is deleted, after their keyset expires and after a restart.
 */
import type { DatabaseSync, StatementSync } from "node:sqlite";
import { threadModule } from "sluice-gateway/package-files";
import type { Clock, ComputeThreads } from "sluice-gateway/plugin";
import type { Receipt } from "sluice-gateway/services";
import { text } from "sluice-gateway/store";
import type { ReceiptsJob } from "./receipts-job.ts";
import { openReceiptsDatabase, type ReceiptRow } from "./receipts-schema.ts";

const module = threadModule("plugins/confidential/confidential-relay/receipts-job");
/** How long receipts are kept. confidential-stream.md section 2 requires 30 days. */
const keptMs = 90 * 86_400_000;

export class Receipts {
  readonly #dataDir: string;
  readonly #clock: Clock;
  readonly #threads: ComputeThreads;
  readonly #db: DatabaseSync;
  /** Prepared, because it runs for every handshake. */
  readonly #hasSession: StatementSync;
  #waiting: { readonly row: ReceiptRow; readonly done: (isKept: boolean) => void }[] = [];
  #isWriting = false;

  /** Throws StoreError if the data folder cannot be used. */
  constructor(dataDir: string, clock: Clock, threads: ComputeThreads) {
    this.#dataDir = dataDir;
    this.#clock = clock;
    this.#threads = threads;
    this.#db = openReceiptsDatabase(dataDir);
    this.#hasSession = this.#db.prepare("SELECT 1 FROM receipts WHERE session = ? LIMIT 1");
  }

  /** Stores a receipt. Resolves to true when it is on disk, and to false if it could not be written. */
  keep(receipt: Receipt): Promise<boolean> {
    const { session, rid } = receipt;
    const row = { session, rid, at: this.#clock.now(), receipt: JSON.stringify(receipt) };
    const { promise, resolve } = Promise.withResolvers<boolean>();
    this.#waiting.push({ row, done: resolve });
    if (!this.#isWriting) void this.#write();
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

  close(): void {
    this.#db.close();
  }

  async #write(): Promise<void> {
    this.#isWriting = true;
    while (this.#waiting.length > 0) {
      const batch = this.#waiting;
      this.#waiting = [];
      const rows = batch.map(({ row }) => row);
      const job: ReceiptsJob = {
        dataDir: this.#dataDir,
        rows,
        keepFrom: this.#clock.now() - keptMs,
      };
      const outcome = await this.#threads.run({ module, input: job, transfer: [] });
      for (const { done } of batch) done(outcome.ok);
    }
    this.#isWriting = false;
  }
}
