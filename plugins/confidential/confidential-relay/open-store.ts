import type { Host, Sql } from "sluice-gateway/plugin";
import { Receipts } from "./receipts.ts";
import { MemoryRetryCredits } from "./retry-credits.ts";
import { SqlRetryCredits } from "./sql-retry-credits.ts";
import { receiptsKeptMs, sessionClaim, type SessionIds, type StreamStore } from "./stream-store.ts";

type StreamHost = Pick<Host, "clock" | "log" | "metrics"> & {
  readonly store: Pick<Host["store"], "sql">;
};

const sweepMs = 600_000;

export function openStreamStore(host: StreamHost): StreamStore {
  const { clock, log, metrics, store } = host;
  const receipts = new Receipts(store.sql("receipts"), clock, log);
  const memory = new MemoryRetryCredits(clock, metrics);
  const sweep = clock.every(sweepMs, () => void deleteOld(host));
  return {
    receipts,
    sessionIds: sessionIds(store.sql("sessions")),
    retryCredits: new SqlRetryCredits(store.sql("credits"), memory, log),
    async close() {
      sweep[Symbol.dispose]();
      await receipts.close();
    },
  };
}

function sessionIds(sql: Sql): SessionIds {
  return {
    async claim(id) {
      const rows = await sql.query(
        `INSERT INTO sluice.claims (id, until) VALUES (${sessionClaim("$1")}, sluice.now_ms() + $2)
         ON CONFLICT DO NOTHING RETURNING 1`,
        [id, receiptsKeptMs],
      );
      return rows.length === 1;
    },
  };
}

async function deleteOld({ store, clock, log }: StreamHost): Promise<void> {
  const sql = store.sql("sweep");
  const keepFrom = clock.now() - receiptsKeptMs;
  try {
    await sql.query("DELETE FROM sluice.receipts WHERE at < $1", [keepFrom]);
    await sql.query("DELETE FROM sluice.lost_answers WHERE milli = 0 OR until <= sluice.now_ms()");
  } catch (error) {
    // The next sweep deletes the remaining ones.
    log.warn({ err: error }, "cannot delete old receipts; trying again");
  }
}
