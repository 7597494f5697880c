/** Opens the PostgreSQL database of `store.postgres` for a command. */
import type { Seal } from "sluice-gateway/plugin";
import {
  checkSchema,
  createSeal,
  explainPostgres,
  openPostgres,
  type PostgresPool,
} from "sluice-gateway/postgres";
import { createMetrics, shippedMigrations, type Config } from "sluice-gateway/process";

export interface CommandDatabase {
  readonly database: PostgresPool;
  readonly seal: Seal;
}

/** Returns undefined without `store.postgres`. The tables have not been checked. The caller must close the database. */
export function openCommandDatabase({ store, secret }: Config): CommandDatabase | undefined {
  // A database without a secret is a fault of the file.
  if (store.postgres === undefined || secret === undefined) return undefined;
  const database = openPostgres({
    url: store.postgres,
    replica: "command",
    metrics: createMetrics(),
  });
  return { database, seal: createSeal(secret) };
}

/** Checks that this release can use the tables. Rejects with StoreError. */
export async function checkTables({ database, seal }: CommandDatabase): Promise<void> {
  try {
    await checkSchema(database, await shippedMigrations(), seal);
  } catch (error) {
    throw explainPostgres(error, database.place);
  }
}
