import type { Config } from "../config/config.ts";
import { printFault } from "../config/fault.ts";
import { storeFault } from "../config/store-faults.ts";
import { systemClock } from "../base/clock.ts";
import { createMetrics } from "../base/metrics.ts";
import { shippedTables } from "../pipeline/load/databases.ts";
import { readPipeline } from "../pipeline/load/check-file.ts";
import { shippedMigrations } from "../pipeline/load/migrations.ts";
import type { Seal, Store } from "../plugin.ts";
import { lockStore } from "../store/lock.ts";
import { refuseMoved } from "../store/moved-marker.ts";
import { explainPostgres } from "../store/postgres/failure.ts";
import { checkSchema } from "../store/postgres/migrations.ts";
import { openPostgres, type PostgresPool } from "../store/postgres/postgres.ts";
import { createSeal } from "../store/seal.ts";
import { postgresSql } from "../store/sql/postgres-sql.ts";
import { openSqliteSql } from "../store/sql/sqlite-sql.ts";
import { needsTakeover, stateFileOf } from "../store/sql/state-file.ts";
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

/** Rejects with StoreError if this release cannot use the tables. */
export async function checkTables({ database, seal }: CommandDatabase): Promise<void> {
  try {
    await checkSchema(database, await shippedMigrations(), seal);
  } catch (error) {
    throw explainPostgres(error, database.place);
  }
}

/** Tables in PostgreSQL or in the data folder, which a gateway may use at the same time. */
export interface CommandStore extends AsyncDisposable {
  readonly sql: Store["sql"];
  /** Undefined without `store.postgres`. */
  readonly database: PostgresPool | undefined;
}

export async function openCommandStore(config: Config): Promise<CommandStore> {
  await using stack = new AsyncDisposableStack();
  const opened = openCommandDatabase(config);
  if (opened !== undefined) {
    const { database } = opened;
    stack.defer(() => database.close());
    await checkTables(opened);
    const sql: Store["sql"] = (lane) => postgresSql(database, lane);
    return { sql, database, ...closing(stack.move()) };
  }
  const { data: dataDir } = config.store;
  refuseMoved(dataDir);
  const tables = await shippedTables();
  // A gateway of an earlier release would lose the files that it uses.
  using _lock = needsTakeover(dataDir, tables) ? lockStore(dataDir) : undefined;
  const state = await openSqliteSql(stateFileOf(dataDir, tables), systemClock);
  stack.defer(() => state.close());
  return { sql: () => state, database: undefined, ...closing(stack.move()) };
}

function closing(stack: AsyncDisposableStack): AsyncDisposable {
  return { [Symbol.asyncDispose]: () => stack.disposeAsync() };
}

/** Prints the reason and resolves to 1 if the database cannot be used. */
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
