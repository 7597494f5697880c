/** Receipts that arrive while some are written are written next. */
import type { Clock, Log, Sql } from "sluice-gateway/plugin";
import type { Receipt } from "sluice-gateway/services";
import { text, valueRows } from "sluice-gateway/internal/store";
import type { ReceiptStore } from "./stream-store.ts";

const maxBatch = 500;

interface Waiting {
  readonly receipt: Receipt;
  readonly done: (isKept: boolean) => void;
}

export class Receipts implements ReceiptStore {
  readonly #sql: Sql;
  readonly #clock: Pick<Clock, "now">;
  readonly #log: Log;
  #waiting: Waiting[] = [];
  /** Undefined while nothing is written. */
  #writing: Promise<void> | undefined;

  constructor(sql: Sql, clock: Pick<Clock, "now">, log: Log) {
    this.#sql = sql;
    this.#clock = clock;
    this.#log = log;
  }

  keep(receipt: Receipt): Promise<boolean> {
    const { promise, resolve } = Promise.withResolvers<boolean>();
    this.#waiting.push({ receipt, done: resolve });
    this.#writing ??= this.#write();
    return promise;
  }

  async find(session: string, rid: number): Promise<Receipt | undefined> {
    const [row] = await this.#sql.query(
      "SELECT CAST(receipt AS text) AS receipt FROM sluice.receipts WHERE session = $1 AND rid = $2",
      [session, rid],
    );
    // Only `keep` writes receipts.
    return row && (JSON.parse(text(row, "receipt")) as Receipt);
  }

  async close(): Promise<void> {
    await this.#writing;
  }

  async #write(): Promise<void> {
    while (this.#waiting.length > 0) {
      const batch = this.#waiting.splice(0, maxBatch);
      const isKept = await this.#insert(batch);
      for (const { done } of batch) done(isKept);
    }
    this.#writing = undefined;
  }

  /** If the outcome is unknown, the receipts count as not written, although they may exist. */
  async #insert(batch: readonly Waiting[]): Promise<boolean> {
    const at = this.#clock.now();
    try {
      await this.#sql.query(
        `INSERT INTO sluice.receipts (session, rid, at, receipt) VALUES ${valueRows(batch.length, 4)}
         ON CONFLICT DO NOTHING`,
        batch.flatMap(({ receipt }) => [receipt.session, receipt.rid, at, JSON.stringify(receipt)]),
      );
      return true;
    } catch (error) {
      this.#log.error({ err: error }, "cannot store receipts");
      return false;
    }
  }
}
