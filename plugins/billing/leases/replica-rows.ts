/** The gateways in the database, for operators. */
import type { Postgres } from "sluice-gateway/plugin";
import { heldSql, ofWorkspaceSql } from "./ledger-statements.ts";
import { number, optionalText, text } from "sluice-gateway/internal/store";

/** A row of `sluice store status`, with the names that it prints. */
export interface ReplicaStatus {
  readonly name: string;
  readonly mode: string;
  readonly state: string;
  readonly heard_seconds_ago: number;
  /** Time of its newest charge in the database, in RFC 3339. Undefined if it has none. */
  readonly last_charge_at: string | undefined;
  /** Number of its last charge in the database. */
  readonly posted: number;
  /** Credit of workspaces that it holds and has not charged, in milli-CU. */
  readonly held_cu_milli: number;
  readonly journal: string;
  readonly version: string;
}

/**
 * Returns the replicas that have not ended, those that ended within a day, and all data folders whose charges were
 * copied. The one with the most recent message is first. Rejects with DatabaseFailure.
 */
export async function readReplicas(database: Postgres): Promise<ReplicaStatus[]> {
  const rows = await database.query(
    "status",
    `SELECT name, journal, version, mode, state, posted,
       (sluice.now_ms() - heard_at) / 1000.0::float8 AS ago,
       to_char((SELECT max(time) FROM sluice.charges WHERE replica = r.id) AT TIME ZONE 'UTC',
         'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS last_charge
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
export async function endReplicas(
  database: Postgres,
  name?: string,
): Promise<{ readonly name: string; readonly freedMilliCu: number }[]> {
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
  return rows.map((row) => ({ name: text(row, "name"), freedMilliCu: number(row, "held") }));
}
