/**
 * `host.claims`: ids that work once, such as those of confirmation tokens, and ids that ended early, such as sessions.
 */
import type { Clock } from "../contract/clock.ts";
import type { Log } from "../contract/log.ts";
import type { Session } from "../contract/session.ts";
import type { Sql } from "../contract/sql.ts";
import type { Claims } from "../contract/store.ts";
import { number, optionalNumber, text } from "./row.ts";
import type { Tables } from "./sql/tables.ts";

/** Endings are numbered in the order of commits. */
export const claimTables: Tables = {
  scripts: [
    {
      name: "claims",
      sql({ functions, numbered }) {
        const no = numbered("endings", "no", 7_582_147);
        return `${functions}
CREATE TABLE sluice.claims (id text PRIMARY KEY, until bigint NOT NULL);
CREATE INDEX claims_until ON sluice.claims (until);
CREATE TABLE sluice.endings (${no.column}, id text NOT NULL UNIQUE, until bigint NOT NULL);
CREATE INDEX endings_until ON sluice.endings (until);
${no.after}`;
      },
    },
  ],
  // The earlier file had one table for both.
  takeovers: [
    {
      file: "claims.db",
      sql: `INSERT INTO claims (id, until) SELECT id, until FROM old.claims WHERE true ON CONFLICT DO NOTHING;
        INSERT INTO endings (id, until) SELECT id, until FROM old.claims WHERE true ON CONFLICT DO NOTHING`,
    },
  ],
  moved: ["claims", "endings"].map((name) => ({
    name,
    columns: "id, until",
    key: ["id"],
  })),
};

export interface ClaimsService extends Claims {
  close(): void;
}

const sweepMs = 60_000;

/** Returns at least one row, which has the time of the store. `newest`: the last number, null if there are no endings. */
const readEndings = `SELECT sluice.now_ms() AS now, newest, no, id, until
  FROM (SELECT max(no) AS newest FROM sluice.endings) AS one LEFT JOIN sluice.endings ON no > $1 ORDER BY no`;

/** Reads the endings that are in force. Rejects with StoreError. */
export async function openClaims(
  sql: Sql,
  session: Session,
  clock: Clock,
  log: Log,
): Promise<ClaimsService> {
  const ended = new Map<string, number>();
  let seen = 0;
  /** The time of the store minus the time of this gateway. */
  let offsetMs = 0;
  let isHealthy = true;
  let isReading = false;

  const follow = async (): Promise<void> => {
    const rows = await sql.query(readEndings, [seen]);
    const [first = {}] = rows;
    offsetMs = number(first, "now") - clock.now();
    const newest = optionalNumber(first, "newest") ?? 0;
    if (newest < seen) {
      // The newest endings were deleted, or the store was restored and gives their numbers again.
      seen = 0;
      if (newest > 0) return follow();
    }
    for (const row of rows) {
      if (row["no"] === null) continue;
      ended.set(text(row, "id"), number(row, "until"));
      seen = number(row, "no");
    }
  };
  const readable = (): void => {
    if (!isHealthy) log.info({}, "ended sessions are readable again");
    isHealthy = true;
  };
  /** Ids that have ended stay ended while the store cannot be read. */
  const unreadable = (error: unknown): void => {
    if (isHealthy) log.error({ err: error }, "cannot read which sessions have ended");
    isHealthy = false;
  };
  const followNews = async (): Promise<void> => {
    if (isReading) return;
    isReading = true;
    await follow().then(readable, unreadable);
    isReading = false;
  };
  const sweep = async (): Promise<void> => {
    const now = clock.now() + offsetMs;
    for (const [id, until] of ended) if (until <= now) ended.delete(id);
    try {
      await sql.query("DELETE FROM sluice.claims WHERE until <= sluice.now_ms()");
      await sql.query("DELETE FROM sluice.endings WHERE until <= sluice.now_ms()");
    } catch {
      // The next sweep deletes what this one leaves.
    }
  };

  await follow();
  const watch = session.watch({
    columns: { newest: "(SELECT max(no) FROM sluice.endings)" },
    seen(row) {
      offsetMs = number(row, "now") - clock.now();
      if ((optionalNumber(row, "newest") ?? 0) === seen) readable();
      else void followNews();
    },
    failed: unreadable,
  });
  const sweeper = clock.every(sweepMs, () => void sweep());
  return {
    now: () => clock.now() + offsetMs,
    async claim(id, until) {
      // A claim that has ended may have been deleted, so it must not be granted again.
      const rows = await sql.query(
        `INSERT INTO sluice.claims (id, until)
         SELECT $1, CAST($2 AS bigint) WHERE CAST($2 AS bigint) > sluice.now_ms()
         ON CONFLICT DO NOTHING RETURNING 1`,
        [id, until],
      );
      return rows.length === 1;
    },
    async end(id, until) {
      await sql.query(
        "INSERT INTO sluice.endings (id, until) VALUES ($1, $2) ON CONFLICT DO NOTHING",
        [id, until],
      );
      ended.set(id, until);
    },
    hasEnded: (id) => ended.has(id),
    close() {
      watch[Symbol.dispose]();
      sweeper[Symbol.dispose]();
    },
  };
}
