/** Opens `state.db`, the file with the tables of the data folder, and takes over the files of earlier releases. */
import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { text } from "../row.ts";
import { openDurable, schemaVersion, transaction } from "../sqlite.ts";
import { explain, StoreError } from "../store-error.ts";
import { sqliteDialect, sqliteText } from "./dialect.ts";
import { takenOverVersion, textOf, type Tables, type Takeover } from "./tables.ts";

export const stateFile = "state.db";

export interface StateFile {
  readonly file: string;
  readonly scripts: readonly { readonly name: string; readonly text: string }[];
  readonly takeovers: readonly Takeover[];
}

export function stateFileOf(dataDir: string, { scripts, takeovers }: Tables): StateFile {
  return {
    file: join(dataDir, stateFile),
    scripts: scripts.map((script) => ({
      name: script.name,
      text: sqliteText(textOf(script, sqliteDialect)),
    })),
    takeovers,
  };
}

/**
 * Opens the file with the newest schema: see `openDatabase`. The file records the names of the scripts that have run, and
 * `user_version` is their number. Throws StoreError. A file of a newer release is not changed.
 */
export function openStateFile({ file, scripts, takeovers }: StateFile): DatabaseSync {
  const db = openDurable(file);
  try {
    transaction(db, () => runScripts(db, file, scripts));
    for (const takeover of takeovers) takeOver(db, join(dirname(file), takeover.file), takeover);
    return db;
  } catch (error) {
    db.close();
    throw explain(error, file);
  }
}

function runScripts(db: DatabaseSync, file: string, scripts: StateFile["scripts"]): void {
  const isNew =
    db.prepare("SELECT 1 FROM sqlite_schema WHERE name = 'migrations'").get() === undefined;
  const applied = isNew
    ? []
    : db
        .prepare("SELECT name FROM migrations")
        .all()
        .map((row) => text(row, "name"));
  const unknown = applied.find((name) => !scripts.some((script) => script.name === name));
  if (unknown !== undefined)
    throw newerError(file, `this release does not know its tables of ${unknown}`);
  const missing = scripts.filter(({ name }) => !applied.includes(name));
  if (missing.length === 0) return;
  if (isNew) db.exec("CREATE TABLE migrations (name text PRIMARY KEY)");
  const remember = db.prepare("INSERT INTO migrations VALUES (?)");
  for (const script of missing) {
    db.exec(script.text);
    remember.run(script.name);
  }
  db.exec(`PRAGMA user_version = ${scripts.length}`);
}

/**
 * Copies the rows of a file of an earlier release, and empties the file afterwards. The file remains, so that an earlier
 * release refuses the folder instead of starting without these rows. If the process ends between the two steps, the
 * rows are copied again: nothing can have changed in between.
 */
function takeOver(db: DatabaseSync, path: string, takeover: Takeover): void {
  if (!existsSync(path)) return;
  const { version: wanted = 1, sql: copy } = takeover;
  const takenOver = takenOverVersion(takeover);
  try {
    db.prepare("ATTACH DATABASE ? AS old").run(path);
    try {
      const version = pragma(db, "user_version");
      if (version > takenOver) throw newerError(path, `it has schema version ${version}`);
      // A process that was killed while it created the file leaves version 0, without tables.
      if (version > 0 && version < wanted) throw olderError(path, version);
      if (version === wanted) transaction(db, () => db.exec(copy));
      if (version < takenOver) transaction(db, () => empty(db, takenOver));
      if (pragma(db, "page_count") > 1) db.exec("VACUUM old");
    } finally {
      db.exec("DETACH DATABASE old");
    }
  } catch (error) {
    throw explain(error, path);
  }
}

function pragma(db: DatabaseSync, name: "user_version" | "page_count"): number {
  return Number(db.prepare(`PRAGMA old.${name}`).get()?.[name]);
}

/** Tables are dropped in the reverse order of their creation, because rows refer only to earlier tables. */
function empty(db: DatabaseSync, takenOver: number): void {
  const tables = db
    .prepare(
      `SELECT name FROM old.sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%'
       ORDER BY rowid DESC`,
    )
    .all();
  for (const row of tables) db.exec(`DROP TABLE old.${text(row, "name")}`);
  db.exec(`PRAGMA old.user_version = ${takenOver}`);
}

/** Returns true if the data folder has a file of an earlier release that has not been taken over. Throws StoreError. */
export function needsTakeover(dataDir: string, { takeovers }: Tables): boolean {
  return takeovers.some((takeover) => {
    const path = join(dataDir, takeover.file);
    if (!existsSync(path)) return false;
    try {
      using db = new DatabaseSync(path, { readOnly: true, timeout: 5_000 });
      return schemaVersion(db) < takenOverVersion(takeover);
    } catch (error) {
      throw explain(error, path);
    }
  });
}

function newerError(file: string, detail: string): StoreError {
  return new StoreError(
    "SLUICE_STORE_NEWER",
    `${file} was written by a newer release: ${detail}`,
    "Run the release that wrote it, or restore a backup from before the upgrade.",
  );
}

function olderError(file: string, version: number): StoreError {
  return new StoreError(
    "SLUICE_STORE_OLDER",
    `${file} was written by a release that is too old for this one: it has schema version ${version}`,
    "Start the release before this one on the folder once.",
  );
}
