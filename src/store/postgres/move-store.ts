import type { DatabaseSync } from "node:sqlite";
import { existsSync } from "node:fs";
import { join } from "node:path";
import type { Postgres, RunStatement } from "../../contract/store.ts";
import { lockStore } from "../lock.ts";
import { isMoved, markMoved } from "../moved-marker.ts";
import { openStateFile, stateFile, stateFileOf } from "../sql/state-file.ts";
import type { Tables } from "../sql/tables.ts";
import { explain } from "../store-error.ts";
import { compareRows, copyRows, refuseRows, type CopiedTable } from "./copy-rows.ts";
import { explainPostgres } from "./failure.ts";
import { upgradeLock } from "./migrations.ts";

export interface EmbeddedDatabase {
  readonly file: string;
  /** Names of files that `open` takes over. */
  readonly earlier?: readonly string[];
  /** Opens the database with the newest schema. Throws StoreError. */
  readonly open: (dataDir: string) => DatabaseSync;
  /** In an order in which every row refers only to rows that were copied before, or to rows of its own table. */
  readonly tables: readonly CopiedTable[];
}

export interface MoveOptions {
  readonly dataDir: string;
  /** Its tables must exist. */
  readonly database: Postgres;
  readonly sources: readonly EmbeddedDatabase[];
  /** True to only compare the folder with the database. */
  readonly isCheck: boolean;
}

export function stateDatabase(tables: Tables): EmbeddedDatabase {
  return {
    file: stateFile,
    earlier: tables.takeovers.map(({ file }) => file),
    open: (dataDir) => openStateFile(stateFileOf(dataDir, tables)),
    tables: tables.moved,
  };
}

export type MovedRows = Readonly<Record<string, number>>;

/**
 * One transaction copies and compares every row. No gateway can start on the folder meanwhile, and commands wait.
 * Rejects with StoreError; then nothing has changed, unless the answer to the commit was lost.
 */
export async function moveStore(options: MoveOptions): Promise<MovedRows> {
  const { dataDir, database, isCheck } = options;
  using stack = new DisposableStack();
  stack.use(lockStore(dataDir));
  const sources = options.sources
    .filter(({ file, earlier = [] }) =>
      [file, ...earlier].some((name) => existsSync(join(dataDir, name))),
    )
    .map((source) => ({ ...source, db: openLocked(source, dataDir, stack) }));
  const tables = sources.flatMap(({ db, tables: all }) => all.map((table) => ({ db, table })));
  const moved: Record<string, number> = {};
  try {
    await database.transaction("migrate", async (run) => {
      await run("SELECT pg_advisory_xact_lock($1)", [upgradeLock]);
      if (!isCheck) await copyAll(run, tables);
      for (const { db, table } of tables) moved[table.name] = await compareRows(run, db, table);
    });
  } catch (error) {
    if (error instanceof Error && "errcode" in error) throw explain(error, dataDir);
    throw explainPostgres(error, database.place);
  }
  if (!isMoved(dataDir)) markMoved(dataDir, database.place);
  return moved;
}

type OpenTables = readonly { readonly db: DatabaseSync; readonly table: CopiedTable }[];

async function copyAll(run: RunStatement, tables: OpenTables): Promise<void> {
  for (const { table } of tables) await refuseRows(run, table);
  // A row may refer to one of the same table that follows later.
  await run("SET CONSTRAINTS ALL DEFERRED");
  for (const { db, table } of tables) await copyRows(run, db, table);
}

function openLocked(
  { open, file }: EmbeddedDatabase,
  dataDir: string,
  stack: DisposableStack,
): DatabaseSync {
  const db = open(dataDir);
  stack.defer(() => db.close());
  try {
    db.exec("BEGIN IMMEDIATE");
  } catch (error) {
    throw explain(error, join(dataDir, file));
  }
  return db;
}
