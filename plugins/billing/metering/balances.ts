/** Reads the used credit of every key and workspace from the sums of the charges, at start. */
import type { DatabaseSync } from "node:sqlite";
import { explain, number, text } from "sluice-gateway/store";
import type { CreditBook } from "./credit.ts";
import { openJournalReader } from "./journal-reader.ts";
import { chargesPath } from "./journal-schema.ts";
import type { RollingWindow } from "./windows.ts";

export interface Balances {
  readonly names: ReadonlyMap<string, number>;
  /** Time of the newest record, in milliseconds since 1970. 0 if the journal is empty. */
  readonly newest: number;
}

/** Fills `book` from a journal whose sums are complete (see `JournalFile.recover`). Throws StoreError. */
export function loadBalances(dataDir: string, book: CreditBook): Balances {
  const file = chargesPath(dataDir);
  let db: DatabaseSync | undefined;
  try {
    db = openJournalReader(dataDir);
    const names = new Map<number, string>();
    for (const row of db.prepare("SELECT id, name FROM names").iterate()) {
      names.set(number(row, "id"), text(row, "name"));
    }
    loadWindow(db, "minutes", names, book, (key) => key.day);
    loadWindow(db, "key_hours", names, book, (key) => key.month);
    loadPeriods(db, names, book);
    const last = db.prepare("SELECT last_at FROM commits ORDER BY seq DESC LIMIT 1").get();
    return {
      names: new Map(Array.from(names, ([id, name]) => [name, id])),
      newest: last === undefined ? 0 : number(last, "last_at"),
    };
  } catch (error) {
    throw explain(error, file);
  } finally {
    db?.close();
  }
}

function loadWindow(
  db: DatabaseSync,
  table: "minutes" | "key_hours",
  names: ReadonlyMap<number, string>,
  book: CreditBook,
  windowOf: (key: ReturnType<CreditBook["key"]>) => RollingWindow,
): void {
  // Rows come in ascending order of steps, because the primary key begins with the step.
  for (const row of db.prepare(`SELECT step, key, ${exact("cu_milli")} FROM ${table}`).iterate()) {
    const id = number(row, "key");
    const key = book.key(nameOf(names, id));
    key.number = id;
    windowOf(key).addToStep(number(row, "step"), number(row, "cu_milli"));
  }
}

function loadPeriods(db: DatabaseSync, names: ReadonlyMap<number, string>, book: CreditBook): void {
  const drawn = ["included", "purchased", "overage"].map(exact).join(", ");
  for (const row of db.prepare(`SELECT period, workspace, ${drawn} FROM periods`).iterate()) {
    const id = number(row, "workspace");
    const workspace = book.workspace(nameOf(names, id));
    workspace.number = id;
    workspace.roll(number(row, "period"));
    workspace.includedMilliCu = number(row, "included");
    workspace.purchasedMilliCu = number(row, "purchased");
    workspace.overageMilliCu = number(row, "overage");
  }
}

/**
 * Returns the SQL for `column`, limited to the largest exact number. An earlier release may have written larger sums.
 */
function exact(column: string): string {
  return `min(${column}, ${Number.MAX_SAFE_INTEGER}) AS ${column}`;
}

function nameOf(names: ReadonlyMap<number, string>, id: number): string {
  const name = names.get(id);
  if (name === undefined) throw new Error(`the journal has no name with the id ${id}`);
  return name;
}
