/** Reads the state of gateways and their journals from the database. */
import type { Postgres } from "sluice-gateway/plugin";
import { number, optionalText, text } from "sluice-gateway/store";

/** State of a journal in the database. */
export interface KnownJournal {
  /** Number of the last commit whose charges it has. */
  readonly posted: number;
  /** Digest of that commit. */
  readonly check: Uint8Array | undefined;
  /** Number of the last start on the journal. */
  readonly starts: number;
}

/** Returns undefined if the database does not know the journal. Rejects with DatabaseFailure. */
export async function findJournal(
  database: Postgres,
  journal: string,
): Promise<KnownJournal | undefined> {
  const [row] = await database.query(
    "register",
    "SELECT posted, posted_check, starts FROM sluice.replicas WHERE journal = $1",
    [journal],
  );
  if (row === undefined) return undefined;
  const check = row["posted_check"];
  return {
    posted: number(row, "posted"),
    check: check instanceof Uint8Array ? check : undefined,
    starts: number(row, "starts"),
  };
}

/** A row of `sluice store status`. */
export interface ReplicaStatus {
  readonly name: string;
  readonly journal: string;
  readonly version: string;
  readonly mode: string;
  readonly state: string;
  readonly heardSecondsAgo: number;
  /** Number of its last charge in the database, or of the last commit of its journal. */
  readonly posted: number;
  /** Credit of workspaces that it holds and has not charged, in milli-CU. */
  readonly heldMilliCu: number;
  /** Time of its newest charge in the database, in RFC 3339. Undefined if it has none. */
  readonly lastChargeAt: string | undefined;
}

/**
 * Returns the replicas that have not ended, those that ended within a day, and all journals. The one with the most
 * recent message is first. Rejects with DatabaseFailure.
 */
export async function readReplicas(database: Postgres): Promise<ReplicaStatus[]> {
  const rows = await database.query(
    "status",
    `SELECT name, journal, version, mode, state, posted,
       (sluice.now_ms() - heard_at) / 1000.0::float8 AS ago,
       to_char((SELECT max(time) FROM sluice.charges WHERE replica = r.id) AT TIME ZONE 'UTC',
         'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS last_charge
       , coalesce((SELECT sum(sluice.held(granted, spent)) FROM sluice.leases
         WHERE replica = r.id AND cardinality(granted) = 3), 0)::bigint AS held
     FROM sluice.replicas r
     WHERE mode = 'local' OR state = 'live' OR sluice.now_ms() - heard_at < 86400000
     ORDER BY heard_at DESC, id DESC`,
  );
  return rows.map((row) => ({
    name: text(row, "name"),
    journal: text(row, "journal"),
    version: text(row, "version"),
    mode: text(row, "mode"),
    state: text(row, "state"),
    heardSecondsAgo: Math.max(0, Math.round(number(row, "ago") * 10) / 10),
    posted: number(row, "posted"),
    heldMilliCu: number(row, "held"),
    lastChargeAt: optionalText(row, "last_charge"),
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
  const rows = await database.query("status", "SELECT * FROM sluice.credit_end($1)", [
    name ?? null,
  ]);
  return rows.map((row) => ({ name: text(row, "name"), freedMilliCu: number(row, "held") }));
}
