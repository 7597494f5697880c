/**
 * The scripts of the schema `sluice`, of the core and every module, and the secret of the deployment that owns them.
 */
import { timingSafeEqual } from "node:crypto";
import type { DatabaseFailure, Postgres, Seal } from "../../contract/store.ts";
import { blob, text, type Row } from "../row.ts";
import { postgresError } from "./failure.ts";

export interface Migration {
  /** Unique name, under which the database remembers that the script has run. Never changes. */
  readonly name: string;
  readonly sql: string;
  /**
   * True if releases without this script cannot use the tables after it. Replicas are upgraded one after the other, so
   * a release that needs new tables must not exclude the one before it.
   */
  readonly excludesOlder?: boolean;
}

interface AppliedMigration {
  readonly name: string;
  readonly excludesOlder: boolean;
}

interface Meta {
  readonly secretCheck: Uint8Array;
  readonly applied: readonly AppliedMigration[];
}

/** Any number, the same in all releases: it is the advisory lock under which scripts run and rows are moved. */
export const upgradeLock = 7_582_143;

const metaTables = `
  CREATE SCHEMA IF NOT EXISTS sluice;
  CREATE TABLE IF NOT EXISTS sluice.meta (
    id int PRIMARY KEY DEFAULT 1 CHECK (id = 1),
    secret_check bytea NOT NULL
  );
  CREATE TABLE IF NOT EXISTS sluice.migrations (
    name text PRIMARY KEY,
    excludes_older boolean NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT clock_timestamp()
  )`;
/**
 * PostgreSQL lets every user of the schema execute new functions, and some functions write with the rights of the owner.
 * The gateway's user gets the right by the documented grants.
 */
const ownFunctions = "REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA sluice FROM PUBLIC";
const readMeta = `SELECT secret_check, name, excludes_older::text AS excludes_older
  FROM sluice.meta LEFT JOIN sluice.migrations ON true`;

/**
 * Runs the missing scripts, in this order and all in one transaction. Returns the number of scripts before and after.
 * Rejects with StoreError if the tables are newer or belong to another secret, and with DatabaseFailure.
 */
export function upgradeSchema(
  database: Postgres,
  migrations: readonly Migration[],
  seal: Seal,
): Promise<{ readonly before: number; readonly after: number }> {
  return database.transaction("upgrade", async (run) => {
    // Other upgrades wait here. The lock ends with the transaction, so it works through PgBouncer.
    await run("SELECT pg_advisory_xact_lock($1)", [upgradeLock]);
    await run(metaTables);
    const meta = metaOf(await run(readMeta));
    if (meta === undefined) {
      await run("INSERT INTO sluice.meta (secret_check) VALUES ($1)", [secretCheck(seal)]);
    } else {
      checkMeta(meta, migrations, seal);
    }
    const before = meta?.applied.length ?? 0;
    const missing = missingIn(meta, migrations);
    for (const { name, sql, excludesOlder = false } of missing) {
      await run(sql);
      await run("INSERT INTO sluice.migrations (name, excludes_older) VALUES ($1, $2)", [
        name,
        excludesOlder,
      ]);
    }
    await run(ownFunctions);
    return { before, after: before + missing.length };
  });
}

/** Rejects with StoreError if the tables are newer or of another deployment, and with DatabaseFailure. */
export async function checkSchema(
  database: Postgres,
  migrations: readonly Migration[],
  seal: Seal,
): Promise<void> {
  const meta = await storedMeta(database);
  if (meta !== undefined) checkMeta(meta, migrations, seal);
  const missing = missingIn(meta, migrations).map(({ name }) => name);
  if (missing.length === 0) return;
  throw postgresError(
    "SLUICE_STORE_OLDER",
    meta === undefined
      ? "the PostgreSQL database has no tables of Sluice"
      : `the PostgreSQL database is older than this release: it lacks the tables of ${missing.join(", ")}`,
    "Run `sluice store upgrade`.",
  );
}

/** Returns the number of scripts that have run. 0 if there are no tables. Rejects with DatabaseFailure. */
export async function schemaVersion(database: Postgres): Promise<number> {
  return (await storedMeta(database))?.applied.length ?? 0;
}

const undefinedTable = "42P01";

async function storedMeta(database: Postgres): Promise<Meta | undefined> {
  try {
    return metaOf(await database.query("upgrade", readMeta));
  } catch (error) {
    // `query` rejects only with this type.
    if ((error as DatabaseFailure).code === undefinedTable) return undefined;
    throw error;
  }
}

function metaOf(rows: readonly Row[]): Meta | undefined {
  const [first] = rows;
  if (first === undefined) return undefined;
  const applied = rows
    .filter((row) => row["name"] !== null)
    .map((row) => ({
      name: text(row, "name"),
      excludesOlder: text(row, "excludes_older") === "true",
    }));
  return { secretCheck: blob(first, "secret_check"), applied };
}

function missingIn(meta: Meta | undefined, migrations: readonly Migration[]): Migration[] {
  const applied = new Set(meta?.applied.map(({ name }) => name));
  return migrations.filter(({ name }) => !applied.has(name));
}

function checkMeta(meta: Meta, migrations: readonly Migration[], seal: Seal): void {
  const known = new Set(migrations.map(({ name }) => name));
  const excluding = meta.applied.find(
    ({ name, excludesOlder }) => excludesOlder && !known.has(name),
  );
  if (excluding !== undefined) {
    throw postgresError(
      "SLUICE_STORE_NEWER",
      `a newer release has upgraded the PostgreSQL database: this release does not know the tables of ${excluding.name}`,
      "Run the newer release, or restore a backup from before the upgrade.",
    );
  }
  const own = secretCheck(seal);
  if (meta.secretCheck.length === own.length && timingSafeEqual(meta.secretCheck, own)) return;
  throw postgresError(
    "SLUICE_STORE_SECRET",
    "the PostgreSQL database belongs to a deployment with another secret",
    "Set GATEWAY_SECRET (`secret`) to the secret of that deployment, or use another database.",
  );
}

/** Returns a value from which the secret cannot be computed. */
function secretCheck(seal: Seal): Buffer {
  return seal.key("secret check of the store");
}
