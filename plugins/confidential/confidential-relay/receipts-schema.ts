/** The database of receipts: its file and its table. */
import { join } from "node:path";
import type { DatabaseSync } from "node:sqlite";
import { openDatabase } from "sluice-gateway/store";

/** A row of the table. `receipt`: the receipt as JSON. The other members are for lookups and expiry. */
export interface ReceiptRow {
  readonly session: string;
  readonly rid: number;
  /** Milliseconds since 1970. */
  readonly at: number;
  readonly receipt: string;
}

const migrations: readonly string[] = [
  `
  CREATE TABLE receipts (
    session TEXT NOT NULL,
    rid INTEGER NOT NULL,
    at INTEGER NOT NULL,
    receipt TEXT NOT NULL,
    PRIMARY KEY (session, rid)
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX receipts_at ON receipts (at);
  `,
];

/** Schema version that this release writes. */
export const receiptsVersion = migrations.length;

/** Throws StoreError if the data folder cannot be used. */
export function openReceiptsDatabase(dataDir: string): DatabaseSync {
  return openDatabase(join(dataDir, "receipts.db"), migrations);
}
