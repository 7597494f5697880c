/** `ReceiptStore` in PostgreSQL. Receipts that arrive while a statement is in flight are written by the next one. */
import type { Clock, Log, Postgres } from "sluice-gateway/plugin";
import { explainPostgres } from "sluice-gateway/postgres";
import type { Receipt } from "sluice-gateway/services";
import { text } from "sluice-gateway/store";
import type { ReceiptStore } from "../stream-store.ts";

const lane = "receipts";
/** Maximum number of receipts per statement. */
const maxBatch = 500;

interface Waiting {
  readonly row: { readonly session: string; readonly rid: number; readonly receipt: Receipt };
  readonly done: (isKept: boolean) => void;
}

export class PostgresReceipts implements ReceiptStore {
  readonly #database: Postgres;
  readonly #clock: Pick<Clock, "now">;
  readonly #log: Log;
  #waiting: Waiting[] = [];
  /** Resolves when no receipt is waiting. Undefined while nothing is written. */
  #writing: Promise<void> | undefined;

  constructor(database: Postgres, clock: Pick<Clock, "now">, log: Log) {
    this.#database = database;
    this.#clock = clock;
    this.#log = log;
  }

  keep(receipt: Receipt): Promise<boolean> {
    const { session, rid } = receipt;
    const { promise, resolve } = Promise.withResolvers<boolean>();
    this.#waiting.push({ row: { session, rid, receipt }, done: resolve });
    this.#writing ??= this.#write();
    return promise;
  }

  async find(session: string, rid: number): Promise<Receipt | undefined> {
    try {
      const [row] = await this.#database.query(
        lane,
        "SELECT receipt::text AS receipt FROM sluice.receipts WHERE session = $1 AND rid = $2",
        [session, rid],
      );
      // Only `keep` writes receipts.
      return row && (JSON.parse(text(row, "receipt")) as Receipt);
    } catch (error) {
      throw explainPostgres(error, this.#database.place);
    }
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
    try {
      const rows = Buffer.from(JSON.stringify(batch.map(({ row }) => row)));
      await this.#database.query(
        lane,
        `INSERT INTO sluice.receipts (session, rid, at, receipt)
         SELECT session, rid, $2, receipt
         FROM json_to_recordset($1) AS given (session text, rid bigint, receipt json)
         ON CONFLICT DO NOTHING`,
        [rows, this.#clock.now()],
      );
      return true;
    } catch (error) {
      this.#log.error({ err: error }, "cannot store receipts");
      return false;
    }
  }
}
