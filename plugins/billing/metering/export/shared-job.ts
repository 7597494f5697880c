/**
 * Work that one of several gateways does for all. A gateway holds a job until it has not renewed it for `holdMs`; then
 * another one takes it over. Both may work on it for a moment, so doing a part of the work twice must be harmless.
 */
import type { Postgres } from "sluice-gateway/plugin";
import { optionalText } from "sluice-gateway/store";

/**
 * Time for which a gateway holds a job without renewing it. It is longer than the delivery of a batch may take, so
 * that a slow delivery is not repeated.
 */
const holdMs = 45_000;

const take = `INSERT INTO sluice.jobs AS job (name, holder, until)
  VALUES ($1, $2, sluice.now_ms() + ${holdMs})
  ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, until = excluded.until
    WHERE job.holder = excluded.holder OR job.until <= sluice.now_ms()
  RETURNING position`;
const move = `UPDATE sluice.jobs SET position = $3, until = sluice.now_ms() + ${holdMs}
  WHERE name = $1 AND holder = $2 RETURNING 1`;
const release = "UPDATE sluice.jobs SET until = 0 WHERE name = $1 AND holder = $2";

export interface SharedJob {
  /**
   * Takes the job, or renews it. Its position is undefined until `moveTo` has stored one. Returns undefined if another
   * gateway holds the job. Rejects with DatabaseFailure.
   */
  take(): Promise<{ readonly position: string | undefined } | undefined>;
  /** Stores the position. Rejects if another gateway has taken the job over, and with DatabaseFailure. */
  moveTo(position: string): Promise<void>;
  /** Lets another gateway take the job at once. Rejects with DatabaseFailure. */
  release(): Promise<void>;
}

/** `holder`: id of this start of this gateway. */
export function createSharedJob(database: Postgres, name: string, holder: string): SharedJob {
  return {
    async take() {
      const [row] = await database.query("export", take, [name, holder]);
      return row && { position: optionalText(row, "position") };
    },
    async moveTo(position) {
      const [row] = await database.query("export", move, [name, holder, position]);
      if (row === undefined) throw new Error("another gateway has taken over the work");
    },
    async release() {
      await database.query("export", release, [name, holder]);
    },
  };
}
