import type { CommandContext, StoreSubcommands, Subcommand } from "sluice-gateway/internal/module";
import { schemaVersion } from "sluice-gateway/internal/postgres";
import { checkTables, withDatabase } from "sluice-gateway/internal/process";
import { copyCharges } from "../leases/copy-charges.ts";
import { printRecords, type Flat } from "./accounts.ts";
import type { Postgres } from "sluice-gateway/plugin";
import { heldSql, ofWorkspaceSql } from "../leases/ledger-statements.ts";
import { number, optionalText, text } from "sluice-gateway/internal/store";

const status: Subcommand = {
  options: [],
  arguments: [],
  run: (context) =>
    withDatabase(context, async (opened) => {
      const { database } = opened;
      await checkTables(opened);
      const version = await schemaVersion(database);
      const replicas = await readReplicas(database);
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

/**
 * Ends the gateways with this name, or all of them, prints them and returns their number. Undefined if the database
 * could not be used.
 */
async function end(context: CommandContext, name?: string): Promise<number | undefined> {
  let count = 0;
  const code = await withDatabase(context, async (opened) => {
    await checkTables(opened);
    const ended = await endReplicas(opened.database, name);
    count = ended.length;
    if (context.json) context.print(JSON.stringify({ ended }));
    else printRecords(context, ended, ["name", "freed_cu_milli"]);
  });
  return code === 0 ? count : undefined;
}

const forget: Subcommand = {
  options: [],
  arguments: ["NAME"],
  async run(context, _values, name = "") {
    const count = await end(context, name);
    if (count === 0) context.printToStderr(`no gateway with the name "${name}" is live`);
    return count === undefined || count === 0 ? 1 : 0;
  },
};

const recovered: Subcommand = {
  options: [],
  arguments: [],
  async run(context) {
    const count = await end(context);
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

/**
 * Returns the replicas that have not ended, those that ended within a day, and all data folders whose charges were
 * copied. The one with the most recent message is first. Rejects with DatabaseFailure.
 */
async function readReplicas(database: Postgres): Promise<Flat[]> {
  const rows = await database.query(
    "status",
    `SELECT name, journal, version, mode, state, posted,
       (sluice.now_ms() - heard_at) / 1000.0::float8 AS ago,
       to_char((SELECT time FROM sluice.charges WHERE replica = r.id ORDER BY seq DESC LIMIT 1)
         AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS last_charge
       , coalesce((SELECT sum(${heldSql("l")}) FROM sluice.leases l
         WHERE replica = r.id AND ${ofWorkspaceSql("l")}), 0)::bigint AS held
     FROM sluice.replicas r
     WHERE mode = 'local' OR state = 'live' OR sluice.now_ms() - heard_at < 86400000
     ORDER BY heard_at DESC, id DESC`,
  );
  return rows.map((row) => ({
    name: text(row, "name"),
    mode: text(row, "mode"),
    state: text(row, "state"),
    heard_seconds_ago: Math.max(0, Math.round(number(row, "ago") * 10) / 10),
    last_charge_at: optionalText(row, "last_charge"),
    posted: number(row, "posted"),
    held_cu_milli: number(row, "held"),
    journal: text(row, "journal"),
    version: text(row, "version"),
  }));
}

/**
 * Ends the replicas with this name, or all of them, and returns the freed credit. A replica that still runs registers
 * again. Rejects with DatabaseFailure.
 */
async function endReplicas(database: Postgres, name?: string): Promise<Flat[]> {
  // The second statement sees all leases of the replicas, because they can get no further ones after the first.
  const rows = await database.transaction("status", async (run) => {
    const ended = await run(
      `UPDATE sluice.replicas SET state = 'fenced'
       WHERE state = 'live' AND ($1::text IS NULL OR name = $1) RETURNING id`,
      [name ?? null],
    );
    return run(
      `WITH freed AS (
         DELETE FROM sluice.leases l WHERE replica = ANY ($1::bigint[])
         RETURNING replica, CASE WHEN ${ofWorkspaceSql("l")} THEN ${heldSql("l")} ELSE 0 END AS held
       )
       SELECT r.name, coalesce((SELECT sum(held) FROM freed WHERE replica = r.id), 0)::bigint AS held
       FROM sluice.replicas r WHERE id = ANY ($1) ORDER BY id`,
      [ended.map((row) => number(row, "id"))],
    );
  });
  return rows.map((row) => ({ name: text(row, "name"), freed_cu_milli: number(row, "held") }));
}
