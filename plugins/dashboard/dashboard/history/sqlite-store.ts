/** Keeps the health over time in `history.db` in the data folder. */
import { randomUUID } from "node:crypto";
import { join } from "node:path";
import { number, openDatabase, text, transaction } from "sluice-gateway/store";
import { keepMs, type HistoryStore, type Span } from "./store.ts";

/** Schema version that this release writes and reads. */
export const historyVersion = 1;

/** `gateway` is the id of one start of a gateway, so a start never changes the rows of an earlier one. */
const migrations: readonly string[] = [
  `
  CREATE TABLE history (
    span TEXT NOT NULL,
    kind TEXT NOT NULL,
    at INTEGER NOT NULL,
    name TEXT NOT NULL,
    gateway TEXT NOT NULL,
    sum TEXT NOT NULL,
    PRIMARY KEY (span, kind, at, name, gateway)
  ) STRICT, WITHOUT ROWID;
  `,
];

/** Throws StoreError. */
export function openHistoryFile(dataDir: string): HistoryStore {
  const db = openDatabase(join(dataDir, "history.db"), migrations);
  // A crash may lose the last minute, so no write has to wait for the disk.
  db.exec("PRAGMA synchronous = NORMAL");
  const gateway = randomUUID();
  return {
    write(rows) {
      const put = db.prepare("INSERT OR REPLACE INTO history VALUES (?, ?, ?, ?, ?, ?)");
      transaction(db, () => {
        for (const { span, kind, at, name, sum } of rows) {
          put.run(span, kind, at, name, gateway, sum);
        }
      });
    },
    prune(now) {
      const remove = db.prepare("DELETE FROM history WHERE span = ? AND kind = ? AND at < ?");
      for (const [span, ms] of Object.entries(keepMs)) {
        for (const kind of ["all", "route", "upstream", "model"]) remove.run(span, kind, now - ms);
      }
    },
    read({ span, kind, name = null, from, to }) {
      return db
        .prepare(
          `SELECT at, name, sum FROM history WHERE span = :span AND kind = :kind
             AND at >= :from AND at < :to AND (:name IS NULL OR name = :name)`,
        )
        .all({ span, kind, name, from, to })
        .map((row) => ({
          span: span satisfies Span,
          kind,
          at: number(row, "at"),
          name: text(row, "name"),
          sum: text(row, "sum"),
        }));
    },
    close: () => db.close(),
  };
}
