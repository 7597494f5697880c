/** Inserts and updates rows of the accounts, and collects the conditions of a search. */
import type { RunSql } from "sluice-gateway/plugin";
import { valueRows } from "sluice-gateway/internal/store";
import type { Columns } from "./rows.ts";

/** `table` and the names of the columns must come from this code. */
export async function insertRow(run: RunSql, table: string, columns: Columns): Promise<void> {
  const names = Object.keys(columns);
  const statement = `INSERT INTO sluice.${table} (${names.join(", ")}) VALUES ${valueRows(1, names.length)}`;
  await run(statement, Object.values(columns));
}

/** Updates the row with this id. */
export async function updateRow(
  run: RunSql,
  table: string,
  id: string,
  columns: Columns,
): Promise<void> {
  const names = Object.keys(columns);
  if (names.length === 0) return;
  const assignments = names.map((name, index) => `${name} = $${index + 2}`).join(", ");
  const statement = `UPDATE sluice.${table} SET ${assignments} WHERE id = $1`;
  await run(statement, [id, ...Object.values(columns)]);
}

export class Search {
  readonly #conditions: string[] = [];
  readonly #values: unknown[] = [];

  get values(): readonly unknown[] {
    return this.#values;
  }

  /** The clause WHERE, empty if there are no conditions. */
  get where(): string {
    return this.#conditions.length === 0 ? "" : `WHERE ${this.#conditions.join(" AND ")}`;
  }

  /** Returns the parameter of a value. */
  mark(value: unknown): string {
    return `$${this.#values.push(value)}`;
  }

  /** Adds a condition on a value, if there is one. `condition`: gets the parameter of the value. */
  add(value: string | number | undefined, condition: (mark: string) => string): this {
    if (value !== undefined) this.#conditions.push(condition(this.mark(value)));
    return this;
  }

  /** Adds the condition that one of the columns contains a text, in any case. */
  addText(wanted: string, ...columns: readonly string[]): this {
    if (wanted === "") return this;
    const pattern = `%${wanted.replaceAll(/[\\%_]/g, String.raw`\$&`)}%`;
    const all = `lower(concat_ws('\n', ${columns.join(", ")}))`;
    return this.add(pattern, (mark) => `${all} LIKE lower(${mark}) ESCAPE '\\'`);
  }
}
