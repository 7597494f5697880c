import { movedDatabases, shippedMigrations } from "../pipeline/load/migrations.ts";
import { shippedModules } from "../pipeline/load/modules.ts";
import { upgradeSchema } from "../store/postgres/migrations.ts";
import { moveStore } from "../store/postgres/move-store.ts";
import type { Command } from "./command.ts";
import { checkTables, withDatabase } from "./database.ts";
import { runSubcommand, type Subcommand } from "./subcommand.ts";

/** Time limit of a script of the schema, in milliseconds. Some rewrite whole tables, at seconds per million rows. */
const scriptMs = 24 * 3_600_000;

const upgrade: Subcommand = {
  options: [],
  arguments: [],
  run: (context) =>
    withDatabase(context, async ({ database, seal }) => {
      const patient = database.separate({ connections: 1, statementMs: scriptMs });
      const { before, after } = await upgradeSchema(patient, await shippedMigrations(), seal);
      if (context.json) return context.print(JSON.stringify({ before, after }));
      context.print(
        before === after
          ? `the tables already have schema version ${after}`
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

export async function storeCommand(): Promise<Command> {
  const added = await Promise.all((await shippedModules()).store.map((load) => load()));
  const all = {
    upgrade,
    migrate,
    ...Object.fromEntries(added.flatMap(({ subcommands }) => Object.entries(subcommands))),
  };
  const usage = ["upgrade", "migrate [--check]", ...added.flatMap((each) => each.usage)];
  return {
    summary: "prepare the PostgreSQL database, and show the gateways that use it",
    help: `usage: ${usage.map((line) => `sluice store ${line}`).join("\n       ")}

The database is the one of store.postgres (DATABASE_URL) in pipeline.yaml. A gateway may run at the same time.

upgrade            create the tables of Sluice, or bring them to the version that this release needs; run it with the
                   user that owns them, before the gateway is started or upgraded
migrate            copy state.db of the data folder to PostgreSQL, once; the tables must be empty, and no gateway may run on
                   the folder. Every row is compared, and the folder is marked as moved
${added.map(({ help }) => `${help}\n`).join("")}
--check            only compare the data folder with the database, and mark the folder if they are the same
--json             print one JSON document
--config FILE      path of pipeline.yaml`,
    subcommands: Object.keys(all),
    options: { check: { type: "boolean" } },
    run: (context, values, positionals) =>
      runSubcommand("store", all, context, values, positionals),
  };
}
