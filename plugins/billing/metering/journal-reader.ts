/** Opens the charges for reading while a gateway may write them. */
import { existsSync } from "node:fs";
import { DatabaseSync } from "node:sqlite";
import { explain, number, StoreError, text, type Row } from "sluice-gateway/internal/store";
import { chargesPath, chargesVersion, earlierPath } from "./journal-schema.ts";

/** Returns true if a gateway has ever metered in this data folder. */
export function hasJournal(dataDir: string): boolean {
  return existsSync(writtenPath(dataDir));
}

/** Returns the file that has the charges. Until the first start of this release, it is the one of an earlier release. */
export function writtenPath(dataDir: string): string {
  const file = chargesPath(dataDir);
  const earlier = earlierPath(dataDir);
  return existsSync(file) || !existsSync(earlier) ? file : earlier;
}

/** Throws StoreError if the charges are missing or unreadable, or if a newer release wrote them. */
export function openJournalReader(dataDir: string): DatabaseSync {
  const file = writtenPath(dataDir);
  if (!hasJournal(dataDir)) {
    throw new StoreError(
      "SLUICE_STORE_FAILED",
      `there is no journal at ${file}`,
      "Start the gateway once, or set store.data (DATA_DIR) to the data folder of the gateway.",
    );
  }
  let db: DatabaseSync | undefined;
  try {
    db = new DatabaseSync(file, { readOnly: true, timeout: 5_000 });
    const version = number(singleRow(db, "PRAGMA user_version"), "user_version");
    if (version > chargesVersion) {
      throw new StoreError(
        "SLUICE_STORE_NEWER",
        `${file} was written by a newer release: it has schema version ${version}, and this release supports ${chargesVersion}`,
        "Run the release that wrote it.",
      );
    }
    return db;
  } catch (error) {
    db?.close();
    throw explain(error, file);
  }
}

/** Returns the unique id of a journal. */
export function journalUid(db: DatabaseSync): string {
  return text(singleRow(db, "SELECT uid FROM journal"), "uid");
}

/** Returns the number of the newest commit. 0 if there is none. */
export function newestCommit(db: DatabaseSync): number {
  return number(singleRow(db, "SELECT ifnull(max(seq), 0) AS seq FROM commits"), "seq");
}

/** Returns the row of a query that always has exactly one row. */
export function singleRow(db: DatabaseSync, sql: string): Row {
  const row = db.prepare(sql).get();
  if (row === undefined) throw new Error(`no row for ${sql}`);
  return row;
}
