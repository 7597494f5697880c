/** `host.claims` in PostgreSQL, for all replicas. */
import type { Clock } from "../../contract/clock.ts";
import type { Log } from "../../contract/log.ts";
import type { Claims, Postgres } from "../../contract/store.ts";
import { openClaimsDatabase } from "../claims.ts";
import { number, optionalNumber, text } from "../row.ts";
import { commitOrder, commonFunctions } from "./commit-order.ts";
import { explainPostgres } from "./failure.ts";
import type { EmbeddedDatabase } from "./move-store.ts";
import type { Migration } from "./migrations.ts";

/** Endings are numbered in the order of commits. */
const tables = `
${commonFunctions}
CREATE TABLE sluice.claims (id text PRIMARY KEY, until bigint NOT NULL);
CREATE INDEX claims_until ON sluice.claims (until);
CREATE TABLE sluice.endings (no bigint UNIQUE, id text PRIMARY KEY, until bigint NOT NULL);
CREATE INDEX endings_until ON sluice.endings (until);
${commitOrder("endings", "no", 7_582_147)}
`;

/** The script of the claims, and of the functions that the scripts of modules use. It runs before those. */
export const claimMigrations: readonly Migration[] = [{ name: "claims", sql: tables }];

/** The database in the data folder that the tables replace. It has no table of its own for endings. */
export const claimsDatabase: EmbeddedDatabase = {
  file: "claims.db",
  open: openClaimsDatabase,
  tables: ["claims", "endings"].map((name) => ({
    name,
    from: "claims",
    columns: { id: "text", until: "bigint" },
    key: ["id"],
  })),
};

export interface PostgresClaims extends Claims {
  close(): void;
}

/** Interval of reading. Other replicas must follow within one second. */
const pollMs = 250;
const sweepMs = 60_000;

/**
 * Returns at least one row, which has the time of the database. `newest`: the last number that was given, null if none
 * was.
 */
const readEndings = `SELECT sluice.now_ms() AS now, pg_sequence_last_value('sluice.endings_no') AS newest, no, id, until
  FROM (VALUES (1)) AS one LEFT JOIN sluice.endings ON no > $1 ORDER BY no`;

/** Reads the endings that are in force. Rejects with StoreError. */
export async function openPostgresClaims(
  database: Postgres,
  clock: Clock,
  log: Log,
): Promise<PostgresClaims> {
  /** Ids that have ended, with the time until which they are kept. */
  const ended = new Map<string, number>();
  let seen = 0;
  /** The time of the database minus the time of this gateway. */
  let offsetMs = 0;
  let isHealthy = true;
  let isReading = false;

  const query = async (
    statement: string,
    values: readonly unknown[],
  ): ReturnType<Postgres["query"]> => {
    try {
      return await database.query("claims", statement, values);
    } catch (error) {
      throw explainPostgres(error, database.place);
    }
  };
  const follow = async (): Promise<void> => {
    const rows = await query(readEndings, [seen]);
    const [first = {}] = rows;
    offsetMs = number(first, "now") - clock.now();
    if ((optionalNumber(first, "newest") ?? 0) < seen) {
      // The database was restored, and will give these numbers again.
      seen = 0;
      return follow();
    }
    for (const row of rows) {
      if (row["no"] === null) continue;
      ended.set(text(row, "id"), number(row, "until"));
      seen = number(row, "no");
    }
  };
  /** Ids that have ended stay ended while the database cannot be read. */
  const poll = async (): Promise<void> => {
    if (isReading) return;
    isReading = true;
    try {
      await follow();
      if (!isHealthy) log.info({}, "ended sessions are readable again");
      isHealthy = true;
    } catch (error) {
      if (isHealthy) log.error({ err: error }, "cannot read which sessions have ended");
      isHealthy = false;
    }
    isReading = false;
  };
  const sweep = async (): Promise<void> => {
    const now = clock.now() + offsetMs;
    for (const [id, until] of ended) if (until <= now) ended.delete(id);
    try {
      await query("DELETE FROM sluice.claims WHERE until <= sluice.now_ms()", []);
      await query("DELETE FROM sluice.endings WHERE until <= sluice.now_ms()", []);
    } catch {
      // The next sweep deletes what this one leaves.
    }
  };

  await follow();
  const timers = [clock.every(pollMs, () => void poll()), clock.every(sweepMs, () => void sweep())];
  return {
    now: () => clock.now() + offsetMs,
    async claim(id, until) {
      // A claim that has ended may have been deleted, so it must not be granted again.
      const rows = await query(
        `INSERT INTO sluice.claims (id, until) SELECT $1, $2::bigint WHERE $2::bigint > sluice.now_ms()
         ON CONFLICT DO NOTHING RETURNING 1`,
        [id, until],
      );
      return rows.length === 1;
    },
    async end(id, until) {
      await query("INSERT INTO sluice.endings (id, until) VALUES ($1, $2) ON CONFLICT DO NOTHING", [
        id,
        until,
      ]);
      ended.set(id, until);
    },
    hasEnded: (id) => ended.has(id),
    close() {
      for (const timer of timers) timer[Symbol.dispose]();
    },
  };
}
