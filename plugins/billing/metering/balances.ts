/** Reads the used credit of every key and workspace from the sums of the charges, at start. */
import type { DatabaseSync } from "node:sqlite";
import { explain, number, text } from "sluice-gateway/internal/store";
import type { MemoryLedger, ScopeRow } from "../leases/memory-ledger.ts";
import { totalOf } from "../leases/months.ts";
import { openJournalReader } from "./journal-reader.ts";
import { chargesPath } from "./journal-schema.ts";
import { MonthDraws } from "./month-draws.ts";
import type { RollingWindow } from "./windows.ts";

export interface Balances {
  readonly names: ReadonlyMap<string, number>;
  readonly draws: Map<string, MonthDraws>;
  /** Time of the newest record, in milliseconds since 1970. 0 if the journal is empty. */
  readonly newest: number;
}

/**
 * Sets the charges of all scopes of `ledger` to those of a journal whose sums are complete (see `JournalFile.recover`).
 * Throws StoreError.
 */
export function loadBalances(dataDir: string, ledger: MemoryLedger): Balances {
  const file = chargesPath(dataDir);
  for (const scope of ledger.scopes.values()) {
    scope.day.clear();
    scope.month.clear();
    scope.months.clear();
    Object.assign(scope, { fixed: [] });
  }
  let db: DatabaseSync | undefined;
  try {
    db = openJournalReader(dataDir);
    const names = new Map<number, string>();
    for (const row of db.prepare("SELECT id, name FROM names").iterate()) {
      names.set(number(row, "id"), text(row, "name"));
    }
    loadWindow(db, "minutes", names, ledger, (key) => key.day);
    loadWindow(db, "key_hours", names, ledger, (key) => key.month);
    const draws = loadPeriods(db, names, ledger);
    const last = db.prepare("SELECT last_at FROM commits ORDER BY seq DESC LIMIT 1").get();
    return {
      names: new Map(Array.from(names, ([id, name]) => [name, id])),
      draws,
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
  ledger: MemoryLedger,
  windowOf: (key: ScopeRow) => RollingWindow,
): void {
  // Rows come in ascending order of steps, because the primary key begins with the step.
  for (const row of db.prepare(`SELECT step, key, ${exact("cu_milli")} FROM ${table}`).iterate()) {
    const key = ledger.scope(nameOf(names, number(row, "key")));
    windowOf(key).addToStep(number(row, "step"), number(row, "cu_milli"));
  }
}

function loadPeriods(
  db: DatabaseSync,
  names: ReadonlyMap<number, string>,
  ledger: MemoryLedger,
): Map<string, MonthDraws> {
  const all = new Map<string, MonthDraws>();
  const drawn = ["included", "purchased", "overage"].map(exact).join(", ");
  for (const row of db.prepare(`SELECT period, workspace, ${drawn} FROM periods`).iterate()) {
    const id = nameOf(names, number(row, "workspace"));
    const month = {
      start: number(row, "period"),
      includedMilliCu: number(row, "included"),
      purchasedMilliCu: number(row, "purchased"),
      overageMilliCu: number(row, "overage"),
    };
    const draws = all.get(id) ?? new MonthDraws();
    all.set(id, draws);
    draws.load(month);
    ledger.scope(id).months.set(month.start, totalOf(month));
  }
  return all;
}

/** Limits a column to the largest exact number, because an earlier release may have written larger sums. */
function exact(column: string): string {
  return `min(${column}, ${Number.MAX_SAFE_INTEGER}) AS ${column}`;
}

function nameOf(names: ReadonlyMap<number, string>, id: number): string {
  const name = names.get(id);
  if (name === undefined) throw new Error(`the journal has no name with the id ${id}`);
  return name;
}
