/** Opens the PostgreSQL database of `store.postgres` for a command. */
import type { Config } from "../config/config.ts";
import { printFault } from "../config/fault.ts";
import { storeFault } from "../config/store-fault.ts";
import { createMetrics } from "../metrics.ts";
import { readPipeline } from "../pipeline/load/check-file.ts";
import { shippedMigrations } from "../pipeline/load/migrations.ts";
import type { Seal } from "../plugin.ts";
import { explainPostgres } from "../store/postgres/failure.ts";
import { checkSchema } from "../store/postgres/migrations.ts";
import { openPostgres, type PostgresPool } from "../store/postgres/postgres.ts";
import { createSeal } from "../store/seal.ts";
import type { CommandContext } from "./command.ts";

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

/** Runs `work` on the configured database. Prints the reason and resolves to 1 if it cannot be used. */
export async function withDatabase(
  context: CommandContext,
  work: (opened: CommandDatabase, config: Config) => Promise<void>,
): Promise<0 | 1> {
  const { config, faults } = await readPipeline(context.configFile, context.env);
  for (const fault of faults) context.printToStderr(printFault(fault, process.cwd()));
  if (config === undefined || faults.length > 0) return 1;
  const opened = openCommandDatabase(config);
  if (opened === undefined) {
    context.printToStderr("store.postgres (DATABASE_URL) is not set: there is no database to use");
    return 1;
  }
  const { database } = opened;
  try {
    await work(opened, config);
    return 0;
  } catch (error) {
    const fault = storeFault(explainPostgres(error, database.place), config);
    context.printToStderr(printFault(fault, process.cwd()));
    return 1;
  } finally {
    await database.close();
  }
}
