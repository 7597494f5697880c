/** Copies the charges of a data folder to PostgreSQL, for a gateway that ran without a database. */
import type { Postgres, RunSql } from "sluice-gateway/plugin";
import { postgresError } from "sluice-gateway/internal/postgres";
import { number, openDataFolder } from "sluice-gateway/internal/store";
import { numberOf, parseChargeId, placesPerCommit } from "../metering/charge-number.ts";
import {
  hasJournal,
  journalUid,
  newestCommit,
  openJournalReader,
} from "../metering/journal-reader.ts";
import { periodOf, addDrawn, type Drawn } from "./months.ts";
import { readUsage } from "../metering/read-usage.ts";
import { chargeColumns, storableJson, type UsageRow } from "../metering/charge-text.ts";
import type { ReplicaStatus } from "./ledger.ts";
import { registerLock } from "./ledger-statements.ts";

const find = "SELECT id, posted FROM sluice.replicas WHERE journal = $1";
/** A replica with the mode `local` holds no credit. */
const register = `
  INSERT INTO sluice.replicas (journal, name, version, mode, state, registered_at, heard_at)
  SELECT $1::text, $2::text, '', 'local', 'gone', begun.now, begun.now
  FROM (SELECT sluice.now_ms() AS now, ${registerLock}) AS begun
  ON CONFLICT DO NOTHING`;
/**
 * Adds months that are divided as the folder has divided them, unless the database has divided them before. Scopes are
 * locked in the order of their ids, as by grants.
 */
const keepMonths = `
  INSERT INTO sluice.scopes AS known (id, limits, fixed)
  SELECT id, limits, fixed FROM json_to_recordset($1) AS m (id text, limits jsonb, fixed jsonb)
  ORDER BY id
  ON CONFLICT (id) DO UPDATE SET version = known.version + 1, fixed = known.fixed || (
    SELECT coalesce(jsonb_agg(month), '[]') FROM jsonb_array_elements(excluded.fixed) AS each (month)
    WHERE NOT known.fixed @> jsonb_build_array(jsonb_build_object('start', month -> 'start')))`;
const batchCharges = 1_000;

/**
 * Rejects with StoreError if the folder has charges that the database does not have: they would not count for gateways
 * that share the credit. Rejects with DatabaseFailure.
 */
export async function checkCopied(dataDir: string, database: Postgres): Promise<void> {
  if (!hasJournal(dataDir)) return;
  const { journal, last } = journalEnd(dataDir);
  const [row] = await database.query("register", find, [journal]);
  if (last <= (row === undefined ? 0 : number(row, "posted"))) return;
  throw postgresError(
    "SLUICE_STORE_NOT_MOVED",
    `the data folder ${dataDir} has charges that the PostgreSQL database does not have`,
    "Run `sluice store copy-charges`. Or use another data folder.",
  );
}

/** Returns the number of copied charges. It may be repeated. Rejects with StoreError or DatabaseFailure. */
export async function copyCharges(dataDir: string, database: Postgres): Promise<number> {
  if (!hasJournal(dataDir)) return 0;
  using _lock = openDataFolder(dataDir);
  const { journal, last } = journalEnd(dataDir);
  await database.query("migrate", register, [journal, dataDir]);
  const [replica = {}] = await database.query("migrate", find, [journal]);
  const posted = number(replica, "posted");
  let end = posted;
  let copied = 0;
  const post = async (run: RunSql, rows: readonly string[], upTo: number): Promise<void> => {
    const statement = "SELECT sluice.credit_post($1, $2, $3, $4) AS reply";
    const values = [number(replica, "id"), end + 1, upTo, `[${rows.join(",")}]`];
    const [row = {}] = await run(statement, values);
    // Only the function in schema.ts writes the reply.
    if ((row["reply"] as ReplicaStatus).posted !== upTo) {
      throw postgresError(
        "SLUICE_STORE_IN_USE",
        "another process copies the charges of this data folder",
        "Wait until it has ended, and repeat the command.",
      );
    }
    end = upTo;
    copied += rows.length;
  };
  let rows: string[] = [];
  const months = new Map<string, Map<number, Drawn>>();
  for (const row of readUsage(dataDir)) {
    addDrawn(months, row.workspaceId, periodOf(row.time).start, row);
    const seq = seqOf(row);
    if (seq <= posted) continue;
    if (rows.length === batchCharges) {
      await post((...statement) => database.query("migrate", ...statement), rows, seq - 1);
      rows = [];
    }
    rows.push(storableJson(chargeColumns(row, seq)));
  }
  const [clock = {}] = await database.query("migrate", "SELECT sluice.now_ms() AS now");
  const { start } = periodOf(number(clock, "now"));
  const scopes = [...months].map(([id, of]) => scopeOf(id, of, start));
  // The folder counts as copied after its last batch, so the months are committed with it.
  await database.transaction("migrate", async (run) => {
    // The journal may end with commits that have no charges.
    if (last > end) await post(run, rows, last);
    await run(keepMonths, [JSON.stringify(scopes)]);
  });
  return copied;
}

/** `last`: the highest number that a charge in the journal can have. 0 if it is empty. */
function journalEnd(dataDir: string): { readonly journal: string; readonly last: number } {
  const db = openJournalReader(dataDir);
  try {
    const commit = newestCommit(db);
    const last = commit === 0 ? 0 : (commit + 1) * placesPerCommit - 1;
    return { journal: journalUid(db), last };
  } finally {
    db.close();
  }
}

function seqOf({ id }: UsageRow): number {
  const parsed = parseChargeId(id);
  if (parsed === undefined) throw new Error(`"${id}" is not the id of a charge`);
  return numberOf(parsed);
}

/** The current month is not fixed. Its limits give the same amounts, until a request states the real ones. */
function scopeOf(id: string, months: ReadonlyMap<number, Drawn>, current: number): object {
  const { includedMilliCu = 0, overageMilliCu = 0 } = months.get(current) ?? {};
  let purchasedMilliCu = 0;
  for (const month of months.values()) purchasedMilliCu += month.purchasedMilliCu;
  return {
    id,
    limits: { kind: "workspace", includedMilliCu, purchasedMilliCu, overageMilliCu },
    fixed: [...months]
      .filter(([start]) => start < current)
      .map(([start, month]) => ({ start, ...month })),
  };
}
