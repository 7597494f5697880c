/** `RetryCredits` in the tables of the gateway, so that a retry may reach another gateway. */
import { createHash } from "node:crypto";
import type { Log, Sql } from "sluice-gateway/plugin";
import { number } from "sluice-gateway/internal/store";
import { attemptName, type MemoryRetryCredits } from "./retry-credits.ts";
import { creditsKeptMs, type RetryCredits, type StreamAttempt } from "./stream-store.ts";

/** The part of an amount that covers a cost. All members of SET see the row as it was before. */
const usedPart = "CASE WHEN milli < $3 THEN milli ELSE $3 END";

/**
 * While the store cannot be written, credit is kept in memory, where only a retry that reaches this gateway finds it. If
 * the use of a credit is not confirmed, the credit is not given, because it may have been used.
 */
export class SqlRetryCredits implements RetryCredits {
  readonly #sql: Sql;
  readonly #memory: MemoryRetryCredits;
  readonly #log: Log;

  constructor(sql: Sql, memory: MemoryRetryCredits, log: Log) {
    this.#sql = sql;
    this.#memory = memory;
    this.#log = log;
  }

  async add(attempt: StreamAttempt, milli: number): Promise<void> {
    const name = digestOf(attempt);
    if (name === undefined || milli === 0) return;
    try {
      await this.#sql.query(
        `INSERT INTO sluice.lost_answers AS known (key_id, name, milli, until)
         VALUES ($1, $2, $3, sluice.now_ms() + $4)
         ON CONFLICT (key_id, name) DO UPDATE SET until = excluded.until, milli = excluded.milli +
           CASE WHEN known.until > sluice.now_ms() THEN known.milli ELSE 0 END`,
        [attempt.keyId, name, milli, creditsKeptMs],
      );
    } catch (error) {
      this.#log.warn({ err: error }, "credit for a retry is only valid on this gateway");
      this.#memory.add(attempt, milli);
    }
  }

  async take(attempt: StreamAttempt, costMilliCu: number): Promise<number> {
    const name = digestOf(attempt);
    if (name === undefined) return 0;
    const here = this.#memory.take(attempt, costMilliCu);
    try {
      const [row] = await this.#sql.query(
        `UPDATE sluice.lost_answers SET milli = milli - ${usedPart}, used = ${usedPart}
         WHERE key_id = $1 AND name = $2 AND until > sluice.now_ms() RETURNING used`,
        [attempt.keyId, name, costMilliCu - here],
      );
      const used = row === undefined ? 0 : number(row, "used");
      this.#memory.count(used);
      return here + used;
    } catch (error) {
      this.#log.warn({ err: error }, "cannot read the credit for a retry");
      return here;
    }
  }
}

function digestOf(attempt: StreamAttempt): string | undefined {
  const name = attemptName(attempt);
  return name && createHash("sha256").update(name).digest("hex");
}
