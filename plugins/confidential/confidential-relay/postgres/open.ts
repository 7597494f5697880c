/** Opens the `StreamStore` in PostgreSQL. */
import type { Clock, Log, Metrics, Postgres } from "sluice-gateway/plugin";
import { explainPostgres } from "sluice-gateway/postgres";
import { MemoryRetryCredits } from "../retry-credits.ts";
import { receiptsKeptMs, type SessionIds, type StreamStore } from "../stream-store.ts";
import { PostgresReceipts } from "./receipts.ts";
import { PostgresRetryCredits } from "./retry-credits.ts";

export interface PostgresStreamStoreDeps {
  readonly database: Postgres;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
}

const sweepMs = 600_000;

export function openPostgresStreamStore(deps: PostgresStreamStoreDeps): StreamStore {
  const { database, clock, log, metrics } = deps;
  const receipts = new PostgresReceipts(database, clock, log);
  const memory = new MemoryRetryCredits(clock, metrics);
  const sweep = clock.every(sweepMs, () => void deleteOld(deps));
  return {
    receipts,
    sessionIds: sessionIds(database),
    retryCredits: new PostgresRetryCredits(database, memory, log),
    async close() {
      sweep[Symbol.dispose]();
      await receipts.close();
    },
  };
}

/** Creates the session ids. An id stays used even if its session has no receipts. */
function sessionIds(database: Postgres): SessionIds {
  return {
    async claim(id) {
      try {
        const rows = await database.query(
          "sessions",
          `INSERT INTO sluice.stream_names (name, until) VALUES ($1, sluice.now_ms() + $2)
           ON CONFLICT DO NOTHING RETURNING 1`,
          [id, receiptsKeptMs],
        );
        return rows.length === 1;
      } catch (error) {
        throw explainPostgres(error, database.place);
      }
    },
    release() {},
  };
}

async function deleteOld({ database, clock, log }: PostgresStreamStoreDeps): Promise<void> {
  const keepFrom = clock.now() - receiptsKeptMs;
  try {
    await database.query("sweep", "DELETE FROM sluice.receipts WHERE at < $1", [keepFrom]);
    await database.query("sweep", "DELETE FROM sluice.stream_names WHERE until <= sluice.now_ms()");
    await database.query(
      "sweep",
      "DELETE FROM sluice.lost_answers WHERE milli = 0 OR until <= sluice.now_ms()",
    );
  } catch (error) {
    // The next sweep deletes the remaining ones.
    log.warn({ err: error }, "cannot delete old receipts; trying again");
  }
}
