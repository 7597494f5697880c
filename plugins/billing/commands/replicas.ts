/** The subcommands of `sluice store` about the gateways that use the database. */
import type { CommandContext, StoreSubcommands, Subcommand } from "sluice-gateway/module";
import { schemaVersion } from "sluice-gateway/postgres";
import { checkTables, withDatabase, type CommandDatabase } from "sluice-gateway/process";
import { endReplicas, readReplicas } from "../shipping/charge-store.ts";
import { printRecords } from "./accounts.ts";

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

export const replicaCommands: StoreSubcommands = {
  subcommands: { status, forget, recovered },
  usage: ["status", "forget NAME", "recovered"],
  help: `status             print the version of the tables and the gateways that use them
forget NAME        end a gateway that is lost, so that its credit is free at once and another one may use the database
recovered          end all gateways, after a backup of the database was restored; those that run register again`,
};
