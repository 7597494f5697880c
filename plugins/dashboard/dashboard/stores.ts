import { readdir, stat } from "node:fs/promises";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import type { Store } from "sluice-gateway/plugin";
import { errorCode } from "sluice-gateway/internal/toolkit";

const busyMs = 100;
const maxDatabases = 50;

interface StoreState {
  readonly kind: "SQLite" | "PostgreSQL" | "Redis";
  readonly name: string;
  readonly up: boolean;
  readonly problem?: string;
  /** Number of migrations that have run. Redis has none. */
  readonly schema_version?: number;
  /** Size of the file and of its write-ahead log. */
  readonly bytes?: number;
}

/** Never rejects. */
export async function storeStates(store: Store): Promise<StoreState[]> {
  const { folder, postgres, redis } = store;
  const states = await sqliteStates(folder);
  if (postgres !== undefined) states.push(await postgresState(postgres));
  if (redis !== undefined) states.push({ kind: "Redis", name: "store.redis", up: redis.isUp });
  return states;
}

async function sqliteStates(folder: string): Promise<StoreState[]> {
  // With a database in PostgreSQL, a gateway may have no data folder.
  const names = await readdir(folder).catch(() => []);
  const databases = names.filter((name) => name.endsWith(".db")).toSorted();
  return Promise.all(databases.slice(0, maxDatabases).map((name) => sqliteState(folder, name)));
}

async function sqliteState(folder: string, name: string): Promise<StoreState> {
  const file = join(folder, name);
  try {
    // The log contains commits that are not in the file yet. It may be missing.
    const [{ size }, log] = [await stat(file), await stat(`${file}-wal`).catch(() => undefined)];
    const bytes = size + (log?.size ?? 0);
    return { kind: "SQLite", name, up: true, schema_version: userVersion(file), bytes };
  } catch (error) {
    return { kind: "SQLite", name, up: false, problem: errorCode(error) ?? "no answer" };
  }
}

function userVersion(file: string): number {
  const db = new DatabaseSync(file, { readOnly: true, timeout: busyMs });
  try {
    return Number(db.prepare("PRAGMA user_version").get()?.["user_version"]);
  } finally {
    db.close();
  }
}

async function postgresState(postgres: NonNullable<Store["postgres"]>): Promise<StoreState> {
  const about = { kind: "PostgreSQL", name: postgres.place } as const;
  const { schemaVersion } = await import("sluice-gateway/internal/postgres");
  try {
    return { ...about, up: true, schema_version: await schemaVersion(postgres) };
  } catch (error) {
    return { ...about, up: false, problem: errorCode(error) ?? "no answer" };
  }
}
