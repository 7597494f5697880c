/** What workspaces have drawn of what they bought, for commands that run beside the gateway. */
import { number, text } from "../../../src/store/row.ts";
import { explain } from "../../../src/store/store-error.ts";
import { blob } from "./journal-file.ts";
import { hasJournal, one, openJournalReader } from "./journal-reader.ts";
import { journalPath } from "./journal-schema.ts";
import { at, kind, RecordCursor } from "./records.ts";

/**
 * Milli-CU drawn from the purchased balance, of all time, by workspace id; a workspace that is not in it has drawn
 * nothing. Reads sums, and the charges of the last minute. Throws StoreError.
 */
export function readPurchasedDrawn(dataDir: string): ReadonlyMap<string, number> {
  const drawn = new Map<string, number>();
  if (!hasJournal(dataDir)) return drawn;
  const db = openJournalReader(dataDir);
  try {
    // One moment for the sums and what came after them.
    db.exec("BEGIN");
    const add = (name: string, milli: number): void => {
      if (milli > 0) drawn.set(name, (drawn.get(name) ?? 0) + milli);
    };
    const sums = db.prepare(
      "SELECT name, sum(purchased) AS purchased FROM periods JOIN names ON id = workspace GROUP BY name",
    );
    for (const row of sums.iterate()) add(text(row, "name"), number(row, "purchased"));
    const nameOf = db.prepare("SELECT name FROM names WHERE id = ?");
    const tail = db.prepare("SELECT records FROM commits WHERE seq > ?");
    for (const row of tail.iterate(number(one(db, "SELECT seq FROM checkpoint"), "seq"))) {
      const cursor = new RecordCursor(blob(row["records"]));
      while (cursor.next()) {
        if (cursor.kind !== kind.charge) continue;
        const purchased = cursor.float(at.charge.purchased);
        const name = purchased > 0 ? nameOf.get(cursor.uint(at.charge.workspace)) : undefined;
        if (name !== undefined) add(text(name, "name"), purchased);
      }
    }
    return drawn;
  } catch (error) {
    throw explain(error, journalPath(dataDir));
  } finally {
    db.close();
  }
}
