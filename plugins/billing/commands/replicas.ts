/** The subcommands of `sluice store` about the gateways that use the database. */
import type { CommandContext, StoreSubcommands, Subcommand } from "sluice-gateway/internal/module";
import { schemaVersion } from "sluice-gateway/internal/postgres";
import { checkTables, withDatabase, type CommandDatabase } from "sluice-gateway/internal/process";
import { copyCharges } from "../leases/copy-charges.ts";
import { endReplicas, readReplicas } from "../leases/replica-rows.ts";
import { printRecords } from "./accounts.ts";

const status: Subcommand = {
  options: [],
  arguments: [],
  run: (context) =>
    withDatabase(context, async (opened) => {
      const { database } = opened;
      await checkTables(opened);
      const version = await schemaVersion(database);
      const replicas = (await readReplicas(database)).map((replica) => ({ ...replica }));
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

/** Ends gateways in the database, and prints them. Returns their number. Undefined if the database could not be used. */
async function end(
  context: CommandContext,
  work: (database: CommandDatabase["database"]) => ReturnType<typeof endReplicas>,
): Promise<number | undefined> {
  let count = 0;
  const code = await withDatabase(context, async (opened) => {
    await checkTables(opened);
    const ended = await work(opened.database);
    count = ended.length;
    const shown = ended.map(({ name, freedMilliCu }) => ({ name, freed_cu_milli: freedMilliCu }));
    if (context.json) context.print(JSON.stringify({ ended: shown }));
    else printRecords(context, shown, ["name", "freed_cu_milli"]);
  });
  return code === 0 ? count : undefined;
}

const forget: Subcommand = {
  options: [],
  arguments: ["NAME"],
  async run(context, _values, name = "") {
    const count = await end(context, (database) => endReplicas(database, name));
    if (count === 0) context.printToStderr(`no gateway with the name "${name}" is live`);
    return count === undefined || count === 0 ? 1 : 0;
  },
};

const recovered: Subcommand = {
  options: [],
  arguments: [],
  async run(context) {
    const count = await end(context, (database) => endReplicas(database));
    if (count === 0) context.printToStderr("no gateway was live");
    return count === undefined ? 1 : 0;
  },
};

const copy: Subcommand = {
  options: [],
  arguments: [],
  run: (context) =>
    withDatabase(context, async (opened, { store }) => {
      await checkTables(opened);
      const charges = await copyCharges(store.data, opened.database);
      if (context.json) return context.print(JSON.stringify({ charges }));
      context.print(`copied ${charges} charges of ${store.data} to the database`);
    }),
};

export const replicaCommands: StoreSubcommands = {
  subcommands: { "copy-charges": copy, status, forget, recovered },
  usage: ["copy-charges", "status", "forget NAME", "recovered"],
  help: `copy-charges       copy the charges of the data folder to PostgreSQL; no gateway may run on the folder. It copies only
                   what is missing, so it may be repeated
status             print the version of the tables and the gateways that use them
forget NAME        end a gateway that is lost, so that its credit is free at once and another one may use the database
recovered          end all gateways, after a backup of the database was restored; those that run register again`,
};
