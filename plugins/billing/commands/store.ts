/** `sluice store`: prepares the PostgreSQL database of `store.postgres`, and shows what it has. */
import {
  runSubcommand,
  type Command,
  type CommandContext,
  type Subcommand,
} from "sluice-gateway/module";
import { explainPostgres, moveStore, schemaVersion, upgradeSchema } from "sluice-gateway/postgres";
import {
  movedDatabases,
  printFault,
  readPipeline,
  shippedMigrations,
  storeFault,
  type Config,
} from "sluice-gateway/process";
import { endReplicas, readReplicas } from "../shipping/charge-store.ts";
import { printRecords } from "./accounts.ts";
import { checkTables, openCommandDatabase, type CommandDatabase } from "./database.ts";

/** Runs `work` on the configured database. Prints the reason and resolves to 1 if it cannot be used. */
async function withDatabase(
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

const upgrade: Subcommand = {
  options: [],
  arguments: [],
  run: (context) =>
    withDatabase(context, async ({ database, seal }) => {
      const { before, after } = await upgradeSchema(database, await shippedMigrations(), seal);
      if (context.json) return context.print(JSON.stringify({ before, after }));
      context.print(
        before === after
          ? `the tables have schema version ${after} already`
          : `upgraded the tables from schema version ${before} to ${after}`,
      );
    }),
};

const migrate: Subcommand = {
  options: ["check"],
  arguments: [],
  run: (context, values) =>
    withDatabase(context, async (opened, config) => {
      await checkTables(opened);
      const { data: dataDir } = config.store;
      const { database } = opened;
      const sources = await movedDatabases();
      const isCheck = values["check"] === true;
      const moved = await moveStore({ dataDir, database, sources, isCheck });
      if (context.json) return context.print(JSON.stringify({ rows: moved }));
      for (const [table, rows] of Object.entries(moved)) context.print(`${table}: ${rows} rows`);
      context.print(
        isCheck
          ? `the database has all rows of ${dataDir}, with the same values`
          : `copied all rows of ${dataDir} to the database, and compared them`,
      );
    }),
};

const status: Subcommand = {
  options: [],
  arguments: [],
  run: (context) =>
    withDatabase(context, async (opened) => {
      const { database } = opened;
      await checkTables(opened);
      const version = await schemaVersion(database);
      const replicas = (await readReplicas(database)).map((replica) => ({
        name: replica.name,
        mode: replica.mode,
        state: replica.state,
        heard_seconds_ago: replica.heardSecondsAgo,
        last_charge_at: replica.lastChargeAt,
        posted: replica.posted,
        held_cu_milli: replica.heldMilliCu,
        journal: replica.journal,
        version: replica.version,
      }));
      if (context.json) return context.print(JSON.stringify({ schema_version: version, replicas }));
      context.print(`schema version ${version}`);
      printRecords(context, replicas, [
        "name",
        "mode",
        "state",
        "heard_seconds_ago",
        "last_charge_at",
        "posted",
        "held_cu_milli",
        "journal",
        "version",
      ]);
    }),
};

/** Ends gateways in the database. `work` returns those that were ended. */
async function end(
  context: CommandContext,
  work: (database: CommandDatabase["database"]) => ReturnType<typeof endReplicas>,
): Promise<0 | 1> {
  let found = false;
  const code = await withDatabase(context, async (opened) => {
    await checkTables(opened);
    const ended = await work(opened.database);
    found = ended.length > 0;
    const shown = ended.map(({ name, freedMilliCu }) => ({ name, freed_cu_milli: freedMilliCu }));
    if (context.json) context.print(JSON.stringify({ ended: shown }));
    else printRecords(context, shown, ["name", "freed_cu_milli"]);
  });
  if (code === 0 && !found)
    context.printToStderr("no gateway has been ended: none is live or silent");
  return code === 0 && found ? 0 : 1;
}

const forget: Subcommand = {
  options: [],
  arguments: ["NAME"],
  run: (context, _values, name = "") => end(context, (database) => endReplicas(database, name)),
};

const recovered: Subcommand = {
  options: [],
  arguments: [],
  run: (context) => end(context, (database) => endReplicas(database)),
};

export const store: Command = {
  summary: "prepare the PostgreSQL database, and show what it has",
  help: `usage: sluice store upgrade
       sluice store migrate [--check]
       sluice store status
       sluice store forget NAME
       sluice store recovered

The database is the one of store.postgres (DATABASE_URL) in pipeline.yaml. A gateway may run at the same time.

upgrade            create the tables of Sluice, or bring them to the version that this release needs; run it with the
                   user that owns them, before the gateway is started or upgraded
migrate            copy the accounts of the data folder to the database, once; the tables must be empty, and no gateway
                   may run on the folder. Every row is compared, and the folder is marked as moved
status             print the version of the tables and the gateways that use them
forget NAME        end a gateway that is lost, so that its credit is free at once and another one may use the database
recovered          end all gateways, after a backup of the database was restored; those that run register again

--check            only compare the data folder with the database, and mark the folder if they are the same
--json             print one JSON document
--config FILE      path of pipeline.yaml`,
  subcommands: ["upgrade", "migrate", "status", "forget", "recovered"],
  options: { check: { type: "boolean" } },
  async run(context, values, positionals) {
    return runSubcommand(
      "store",
      { upgrade, migrate, status, forget, recovered },
      context,
      values,
      positionals,
    );
  },
};
