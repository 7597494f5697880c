/** Reads how much purchased credit workspaces have drawn, for commands that run at the same time as the gateway. */
import { blob, explain, number, text } from "sluice-gateway/internal/store";
import { hasJournal, singleRow, openJournalReader, writtenPath } from "./journal-reader.ts";
import { at, kind, RecordCursor } from "./records.ts";

/**
 * Returns, by workspace id, the milli-CU drawn from the purchased balance since the beginning. A workspace that has
 * drawn nothing is missing. Reads the sums of the last checkpoint and the commits after it. Throws StoreError.
 */
export function readPurchasedDrawn(dataDir: string): ReadonlyMap<string, number> {
  const drawn = new Map<string, number>();
  if (!hasJournal(dataDir)) return drawn;
  const db = openJournalReader(dataDir);
  try {
    // A transaction, so that the sums and the commits after them are of the same moment.
    db.exec("BEGIN");
    const add = (name: string, milliCu: number): void => {
      if (milliCu !== 0) drawn.set(name, (drawn.get(name) ?? 0) + milliCu);
    };
    const sums = db.prepare(
      "SELECT name, sum(purchased) AS purchased FROM periods JOIN names ON id = workspace GROUP BY name",
    );
    for (const row of sums.iterate()) add(text(row, "name"), number(row, "purchased"));
    const nameOf = db.prepare("SELECT name FROM names WHERE id = ?");
    const tail = db.prepare("SELECT records FROM commits WHERE seq > ?");
    for (const row of tail.iterate(number(singleRow(db, "SELECT seq FROM checkpoint"), "seq"))) {
      const cursor = new RecordCursor(blob(row, "records"));
      while (cursor.next()) {
        if (cursor.kind !== kind.charge) continue;
        const purchasedMilliCu = cursor.float(at.charge.purchased);
        const name =
          purchasedMilliCu !== 0 ? nameOf.get(cursor.uint(at.charge.workspace)) : undefined;
        if (name !== undefined) add(text(name, "name"), purchasedMilliCu);
      }
    }
    return drawn;
  } catch (error) {
    throw explain(error, writtenPath(dataDir));
  } finally {
    db.close();
  }
}
