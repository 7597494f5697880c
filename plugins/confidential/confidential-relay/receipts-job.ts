/** A job of the compute pool that writes receipts, so that the event loop does not wait for the disk. */
import type { DatabaseSync } from "node:sqlite";
import { transferredResult } from "sluice-gateway/compute";
import { transaction } from "sluice-gateway/store";
import { openReceiptsDatabase, type ReceiptRow } from "./receipts-schema.ts";

export interface ReceiptsJob {
  readonly dataDir: string;
  readonly rows: readonly ReceiptRow[];
  /** Milliseconds since 1970. Older receipts are deleted. */
  readonly keepFrom: number;
}

/** The database, which stays open as long as the thread runs. */
let opened: { readonly dataDir: string; readonly db: DatabaseSync } | undefined;

/** Returns when the receipts are on disk. A receipt that already exists is not changed. */
export default function writeReceipts({ dataDir, rows, keepFrom }: ReceiptsJob): unknown {
  if (opened?.dataDir !== dataDir) {
    opened?.db.close();
    opened = { dataDir, db: openReceiptsDatabase(dataDir) };
  }
  const { db } = opened;
  const insert = db.prepare("INSERT INTO receipts VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING");
  transaction(db, () => {
    for (const { session, rid, at, receipt } of rows) insert.run(session, rid, at, receipt);
    db.prepare("DELETE FROM receipts WHERE at < ?").run(keepFrom);
  });
  return transferredResult(Uint8Array.of(1));
}
