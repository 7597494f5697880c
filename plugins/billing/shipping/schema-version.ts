/**
 * The version of the tables in the schema `sluice` of a PostgreSQL database, and the secret of the deployment that owns
 * them. Numbered scripts bring the tables from one version to the next.
 */
import { timingSafeEqual } from "node:crypto";
import type { DatabaseFailure, Postgres, Seal } from "sluice-gateway/plugin";
import { postgresError, type PostgresPool } from "sluice-gateway/postgres";
import { blob, number, type Row } from "sluice-gateway/store";

/** The script at index i brings the tables from version i to i + 1. */
export interface Migration {
  readonly sql: string;
  /** The oldest version whose code can use the tables after this script. Replicas are upgraded one after the other. */
  readonly oldestCode: number;
}

interface Meta {
  readonly version: number;
  readonly oldestCode: number;
  readonly secretCheck: Uint8Array;
}

/** Any number, the same in all releases: it is the advisory lock under which scripts run. */
const upgradeLock = 7_582_143;

const metaTable = `
  CREATE SCHEMA IF NOT EXISTS sluice;
  CREATE TABLE IF NOT EXISTS sluice.meta (
    id int PRIMARY KEY DEFAULT 1 CHECK (id = 1),
    version int NOT NULL,
    oldest_code int NOT NULL,
    secret_check bytea NOT NULL
  )`;
const readMeta = "SELECT version, oldest_code, secret_check FROM sluice.meta";

/**
 * Runs the scripts that the database does not have yet, all in one transaction. Returns the versions before and after.
 * Rejects with StoreError if the tables are newer or belong to another secret, and with DatabaseFailure.
 */
export function upgradeSchema(
  database: PostgresPool,
  migrations: readonly Migration[],
  seal: Seal,
): Promise<{ readonly before: number; readonly after: number }> {
  return database.transaction("upgrade", async (run) => {
    // Other upgrades wait here. The lock ends with the transaction, so it works through PgBouncer.
    await run("SELECT pg_advisory_xact_lock($1)", [upgradeLock]);
    await run(metaTable);
    const [row] = await run(readMeta);
    const meta = row && metaOf(row);
    if (meta !== undefined) checkMeta(meta, migrations.length, seal);
    const before = meta?.version ?? 0;
    const missing = migrations.slice(before);
    for (const { sql } of missing) await run(sql);
    const last = missing.at(-1);
    if (last !== undefined) {
      await run(
        `INSERT INTO sluice.meta (version, oldest_code, secret_check) VALUES ($1, $2, $3)
         ON CONFLICT (id) DO UPDATE SET version = excluded.version, oldest_code = excluded.oldest_code`,
        [migrations.length, last.oldestCode, secretCheck(seal)],
      );
    }
    return { before, after: Math.max(before, migrations.length) };
  });
}

/**
 * Checks that this release can use the tables and that they belong to this deployment. Rejects with StoreError and with
 * DatabaseFailure.
 */
export async function checkSchema(
  database: Postgres,
  migrations: readonly Migration[],
  seal: Seal,
): Promise<void> {
  const meta = await storedMeta(database);
  const wanted = migrations.length;
  if (meta !== undefined) checkMeta(meta, wanted, seal);
  if (meta !== undefined && meta.version >= wanted) return;
  const found =
    meta === undefined ? "has no tables of Sluice" : `has schema version ${meta.version}`;
  throw postgresError(
    "SLUICE_STORE_OLDER",
    `the PostgreSQL database ${found}, and this release needs schema version ${wanted}`,
    "Run `sluice store upgrade`.",
  );
}

/** Returns the version of the tables. 0 if there are none. Rejects with DatabaseFailure. */
export async function schemaVersion(database: Postgres): Promise<number> {
  return (await storedMeta(database))?.version ?? 0;
}

const undefinedTable = "42P01";

async function storedMeta(database: Postgres): Promise<Meta | undefined> {
  try {
    const [row] = await database.query("upgrade", readMeta);
    return row && metaOf(row);
  } catch (error) {
    // `query` rejects only with this type.
    if ((error as DatabaseFailure).code === undefinedTable) return undefined;
    throw error;
  }
}

function metaOf(row: Row): Meta {
  return {
    version: number(row, "version"),
    oldestCode: number(row, "oldest_code"),
    secretCheck: blob(row, "secret_check"),
  };
}

/** Throws StoreError if a newer release or another deployment owns the tables. */
function checkMeta(meta: Meta, supported: number, seal: Seal): void {
  if (meta.oldestCode > supported) {
    throw postgresError(
      "SLUICE_STORE_NEWER",
      `a newer release has upgraded the PostgreSQL database: it has schema version ${meta.version}, and this release supports ${supported}`,
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

/** A value from which the secret cannot be computed. */
function secretCheck(seal: Seal): Buffer {
  return seal.key("secret check of the store");
}
