import { hostname } from "node:os";
import { setTimeout as wait } from "node:timers/promises";
import type { Config } from "../config/config.ts";
import type { ClosingStack } from "../pipeline/load/closer.ts";
import { shippedMigrations } from "../pipeline/load/migrations.ts";
import type { Metrics, Seal } from "../plugin.ts";
import { explainPostgres, PostgresFailure } from "../store/postgres/failure.ts";
import { checkSchema } from "../store/postgres/migrations.ts";
import { openPostgres, type PostgresPool } from "../store/postgres/postgres.ts";
import { StoreError } from "../store/store-error.ts";

/** Rejects with StoreError. The pool is closed through `stack`. */
export async function openDatabase(
  { store }: Config,
  url: string,
  parts: { readonly seal: Seal; readonly metrics: Metrics },
  stack: ClosingStack,
): Promise<PostgresPool> {
  const { seal, metrics } = parts;
  const replica = store.replica ?? hostname();
  const pool = openPostgres({ url, replica, metrics, statementMs });
  stack.add("PostgreSQL", () => pool.close());
  const migrations = await shippedMigrations();
  try {
    await whenReachable(() => checkSchema(pool, migrations, seal));
  } catch (error) {
    throw explainPostgres(error, pool.place);
  }
  return pool;
}

/** Time limit of a statement: a request may wait for it. */
const statementMs = 2_000;
/** Time for which a start waits for a database that cannot be reached: it may be starting, too. */
const reachMs = 5_000;
const reachEveryMs = 250;

async function whenReachable(ask: () => Promise<void>): Promise<void> {
  const end = performance.now() + reachMs;
  for (;;) {
    try {
      return await ask();
    } catch (error) {
      const isAnswered = error instanceof StoreError || PostgresFailure.from(error).isRefused;
      if (isAnswered || performance.now() > end) throw error;
      await wait(reachEveryMs);
    }
  }
}
