/** The functions and tables of schema.ts, with types. */
import type { Postgres } from "sluice-gateway/plugin";
import { number, oneOf, optionalText, text, type Row } from "sluice-gateway/store";

/** The right of one start to post the charges of a journal. */
export interface Registration {
  readonly replica: number;
  readonly start: number;
}

export type RegisterResult =
  | { readonly kind: "registered"; readonly registration: Registration; readonly posted: number }
  /** `other`: the name of the gateway that uses the database. */
  | { readonly kind: "in_use"; readonly other: string };

/** Charges of consecutive commits. */
export interface Posting {
  /** Number of the first and the last commit. `last` is `first - 1` if there are none. */
  readonly first: number;
  readonly last: number;
  /** Digest of the last commit. Undefined if there are no commits. */
  readonly check: Buffer | undefined;
  /** JSON array of charges. */
  readonly rows: Buffer;
}

/**
 * `posted` of the result is the number of the last commit in the database. `moved`: it is not the one before the batch.
 * `silent` and `unknown`: this start must register again. `replaced`: a newer start posts for this journal.
 */
export type PostResult =
  | { readonly kind: "posted" | "moved"; readonly posted: number }
  | { readonly kind: "silent" | "replaced" | "unknown" };

/** Every method rejects with DatabaseFailure. */
export interface ChargeStore {
  /** Returns what the database has of this journal. Undefined if it does not know the journal. */
  find(
    journal: string,
  ): Promise<{ readonly posted: number; readonly check: Uint8Array | undefined } | undefined>;
  register(journal: string, version: string): Promise<RegisterResult>;
  /** Names of the gateways that have charged shared credit in the last 30 days. No journal counts it. */
  sharers(): Promise<readonly string[]>;
  post(registration: Registration, posting: Posting): Promise<PostResult>;
  leave(registration: Registration): Promise<void>;
}

export function createChargeStore(database: Postgres): ChargeStore {
  return {
    async find(journal) {
      const [row] = await database.query(
        "register",
        "SELECT posted, posted_check FROM sluice.replicas WHERE journal = $1",
        [journal],
      );
      if (row === undefined) return undefined;
      const check = row["posted_check"];
      return {
        posted: number(row, "posted"),
        check: check instanceof Uint8Array ? check : undefined,
      };
    },
    async register(journal, version) {
      const row = await onlyRow(database, "register", "SELECT * FROM sluice.register($1, $2, $3)", [
        journal,
        database.replica,
        version,
      ]);
      if (oneOf(row, "outcome", ["registered", "in_use"]) === "in_use") {
        return { kind: "in_use", other: text(row, "other") };
      }
      const registration = { replica: number(row, "id"), start: number(row, "starts") };
      return { kind: "registered", registration, posted: number(row, "posted") };
    },
    async sharers() {
      const rows = await database.query(
        "register",
        `SELECT DISTINCT name FROM sluice.replicas
         WHERE mode <> 'local' AND posted > 0 AND heard_at > sluice.now_ms() - ${30 * 86_400_000} ORDER BY name`,
      );
      return rows.map((row) => text(row, "name"));
    },
    async post({ replica, start }, { first, last, check, rows }) {
      const [row] = await database.query(
        "post",
        "SELECT * FROM sluice.post($1, $2, $3, $4, $5, $6)",
        [replica, start, first, last, check, rows],
      );
      if (row === undefined) return { kind: "unknown" };
      const kind = oneOf(row, "outcome", ["posted", "moved", "silent", "replaced"]);
      if (kind !== "posted" && kind !== "moved") return { kind };
      return { kind, posted: number(row, "posted") };
    },
    async leave({ replica, start }) {
      await database.query("register", "SELECT sluice.leave($1, $2)", [replica, start]);
    },
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
 * Returns the replicas that have not ended, those that ended within a day, and all journals. The one that was heard last
 * is first. Rejects with DatabaseFailure.
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

async function onlyRow(
  database: Postgres,
  lane: string,
  statement: string,
  values: readonly unknown[],
): Promise<Row> {
  const [row] = await database.query(lane, statement, values);
  if (row === undefined) throw new Error(`no row for ${statement}`);
  return row;
}

/**
 * Ends the replicas with this name, or all of them, and returns what was freed. One that still runs registers again.
 * Rejects with DatabaseFailure.
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
