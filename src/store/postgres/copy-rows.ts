import type { DatabaseSync } from "node:sqlite";
import type { RunStatement } from "../../contract/store.ts";
import { number, type Row } from "../row.ts";
import { postgresError } from "./failure.ts";

export interface CopiedTable {
  /** Name in the schema `sluice`. */
  readonly name: string;
  /** The embedded table, if its name differs, or a query in parentheses. */
  readonly from?: string;
  /** Names of the columns, separated by commas. The rows are copied in the order of the embedded table. */
  readonly columns: string;
  /** The column of JSON, which is a text in the embedded table. */
  readonly json?: string;
  readonly key: readonly string[];
  /** Column that a sequence of the name `sluice.<table>_<column>` continues after the copy. */
  readonly numberedBy?: string;
}

const maxRows = 1_000;
const maxCharacters = 4_194_304;

/** Returns the number of rows. Rejects with DatabaseFailure, and throws the errors of node:sqlite. */
export async function copyRows(
  run: RunStatement,
  db: DatabaseSync,
  table: CopiedTable,
): Promise<number> {
  const values = namesOf(table).map((name) =>
    name === table.json ? `(${textOf(name)})::json` : name,
  );
  const statement = `INSERT INTO sluice.${table.name} (${table.columns})
    SELECT ${values.join(", ")} FROM ${given(table)}`;
  let count = 0;
  for (const { json, rows } of batches(db, table)) {
    await run(statement, [json]);
    count += rows;
  }
  const { name, numberedBy } = table;
  if (numberedBy !== undefined && count > 0) {
    await run(
      `SELECT setval('sluice.${name}_${numberedBy}', max(${numberedBy})) FROM sluice.${name}`,
    );
  }
  return count;
}

/**
 * Checks that every row is in PostgreSQL with the same values, and that there are no others. Returns the number of rows.
 * Rejects with StoreError, with DatabaseFailure, and with the errors of node:sqlite.
 */
export async function compareRows(
  run: RunStatement,
  db: DatabaseSync,
  table: CopiedTable,
): Promise<number> {
  const { name, key } = table;
  const isSame = namesOf(table).map((column) =>
    column === table.json
      ? `stored.${column}::text IS NOT DISTINCT FROM ${textOf(`given.${column}`)}`
      : `stored.${column} IS NOT DISTINCT FROM given.${column}`,
  );
  const statement = `SELECT count(*) AS count FROM ${given(table)}
    WHERE NOT EXISTS (SELECT 1 FROM sluice.${name} AS stored
      WHERE ${key.map((column) => `stored.${column} = given.${column}`).join(" AND ")}
        AND ${isSame.join(" AND ")})`;
  let count = 0;
  let different = 0;
  for (const { json, rows } of batches(db, table)) {
    const [row] = await run(statement, [json]);
    different += number(row ?? {}, "count");
    count += rows;
  }
  const [total] = await run(`SELECT count(*) AS count FROM sluice.${name}`);
  const stored = number(total ?? {}, "count");
  if (different === 0 && stored === count) return count;
  throw postgresError(
    "SLUICE_STORE_DIFFERS",
    `the copy of ${name} in PostgreSQL differs: of ${count} rows, ${different} are missing or different, and it has ${stored} rows`,
    "Empty the database, and run `sluice store upgrade` and `sluice store migrate` again.",
  );
}

export async function refuseRows(run: RunStatement, { name }: CopiedTable): Promise<void> {
  const rows = await run(`SELECT 1 FROM sluice.${name} LIMIT 1`);
  if (rows.length === 0) return;
  throw postgresError(
    "SLUICE_STORE_NOT_EMPTY",
    `the PostgreSQL database already has rows in sluice.${name}`,
    "Use an empty database. If an earlier `sluice store migrate` was interrupted, `sluice store migrate --check` shows whether its copy is complete.",
  );
}

function namesOf({ columns }: CopiedTable): readonly string[] {
  return columns.split(", ");
}

function textOf(column: string): string {
  return `${column} #>> '{}'`;
}

function given({ name }: CopiedTable): string {
  return `json_populate_recordset(NULL::sluice.${name}, $1) AS given`;
}

interface Batch {
  readonly json: Buffer;
  readonly rows: number;
}

function* batches(db: DatabaseSync, { name, from = name, columns }: CopiedTable): Generator<Batch> {
  const select = db.prepare(`SELECT ${columns} FROM ${from}`);
  let texts: string[] = [];
  let characters = 0;
  for (const row of select.iterate()) {
    const text = JSON.stringify(jsonOf(row));
    texts.push(text);
    characters += text.length;
    if (texts.length < maxRows && characters < maxCharacters) continue;
    yield batchOf(texts);
    texts = [];
    characters = 0;
  }
  if (texts.length > 0) yield batchOf(texts);
}

function batchOf(texts: readonly string[]): Batch {
  return { json: Buffer.from(`[${texts.join(",")}]`), rows: texts.length };
}

/** Bytes are written in the hex format of PostgreSQL. */
function jsonOf(row: Row): Row {
  return Object.fromEntries(
    Object.entries(row).map(([name, value]) => [
      name,
      value instanceof Uint8Array ? `\\x${Buffer.from(value).toString("hex")}` : value,
    ]),
  );
}
