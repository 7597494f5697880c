/**
 * Reads the charges of the data folder with SQL, even while a gateway writes them. A report is a job of a thread,
 * because it reads many rows.
 */
import type { DatabaseSync, SQLInputValue } from "node:sqlite";
import { blob, explain, number, sqliteText, text } from "sluice-gateway/internal/store";
import { addDrawn, type Drawn, periodOf } from "../../leases/months.ts";
import {
  commitsWithin,
  NameReader,
  hasJournal,
  openJournalReader,
  singleRow,
  writtenPath,
} from "../journal-reader.ts";
import { chargesOf } from "../read-usage.ts";
import { Sums } from "../sums.ts";
import { usageJson } from "../charge-text.ts";
import { type ChargeBounds, type ReadCharges, type ReadMonths, usageReport } from "./report.ts";
import type { SpendQuery, UsageRange } from "sluice-gateway/services";
import { readSpend } from "./spend.ts";

const hourMs = 3_600_000;

/** Returns the SQL for a column whose value in `hours` is the number of a name. */
const nameOf = (id: string, column = id): string =>
  `ifnull((SELECT name FROM main.names WHERE id = ${id}), '') AS ${column}`;
const names = [
  nameOf("workspace", "workspace_id"),
  nameOf("key", "key_id"),
  ...["surface", "method", "model", "route"].map((name) => nameOf(name)),
];

/** The charges since the last checkpoint, with the columns of `hours`, which an earlier release does not have. */
const recentTable = `CREATE TEMP TABLE recent (
  hour INTEGER, workspace INTEGER, key INTEGER, surface INTEGER, method INTEGER, model INTEGER, route INTEGER, tag TEXT,
  calls INTEGER, included INTEGER, purchased INTEGER, overage INTEGER,
  input_tokens INTEGER, output_tokens INTEGER, cached_tokens INTEGER, reasoning_tokens INTEGER)`;

/** The stored sums and those of the charges since the last checkpoint, with names instead of numbers. */
const hoursView = `
  CREATE TEMP VIEW hours AS SELECT hour, tag, calls, included, purchased, overage,
    included + purchased + overage AS used, input_tokens,
    output_tokens, cached_tokens, reasoning_tokens,
    ${names.join(", ")}
  FROM (SELECT * FROM main.hours UNION ALL SELECT * FROM temp.recent)`;

const chargeColumns =
  "time workspace_id key_id surface method model used_cu_milli input_tokens output_tokens cached_tokens reasoning_tokens";
const chargesView = `
  CREATE TEMP VIEW charges AS SELECT ${chargeColumns
    .split(" ")
    .map((name) => `value ->> '${name}' AS ${name}`)
    .join(", ")} FROM json_each(charges_within())`;

type Work = (read: ReadCharges, readMonths: ReadMonths) => Promise<string | undefined>;

/**
 * Runs `work` on the charges of one moment: those that were settled before the call. Rejects with StoreError if they
 * are missing or unreadable.
 */
async function withFolderCharges(dataDir: string, work: Work): Promise<string | undefined> {
  const db = openJournalReader(dataDir);
  try {
    let bounds: ChargeBounds | undefined;
    openSnapshot(db);
    db.exec(hoursView);
    // The times of charges are texts here.
    db.function("to_timestamp", (seconds) =>
      new Date(Math.round(Number(seconds) * 1000)).toISOString(),
    );
    db.function("charges_within", () => JSON.stringify(chargesWithin(db, bounds)));
    db.exec(chargesView);
    const read: ReadCharges = async (statement, values, given) => {
      bounds = given;
      // SQLite refuses values of other types.
      return db.prepare(sqliteText(statement)).all(...(values as SQLInputValue[]));
    };
    return await work(read, async (workspaceId) => monthsOf(db, workspaceId));
  } catch (error) {
    throw explain(error, writtenPath(dataDir));
  } finally {
    db.close();
  }
}

/** All later statements read the same moment. */
function openSnapshot(db: DatabaseSync): void {
  db.exec("BEGIN");
  db.exec(recentTable);
  addRecent(db);
}

/**
 * Returns, by workspace id, the milli-CU drawn from the purchased balance since the beginning. A workspace that has
 * drawn nothing may be missing. Throws StoreError.
 */
export function readPurchasedDrawn(dataDir: string): ReadonlyMap<string, number> {
  if (!hasJournal(dataDir)) return new Map();
  const db = openJournalReader(dataDir);
  try {
    openSnapshot(db);
    const rows = db.prepare(`SELECT name, sum(purchased) AS purchased
      FROM (SELECT workspace, purchased FROM main.periods UNION ALL SELECT workspace, purchased FROM temp.recent)
      JOIN names ON id = workspace GROUP BY name`);
    return new Map(rows.all().map((row) => [text(row, "name"), number(row, "purchased")]));
  } catch (error) {
    throw explain(error, writtenPath(dataDir));
  } finally {
    db.close();
  }
}

function monthsOf(
  db: DatabaseSync,
  workspaceId: string | undefined,
): Map<string, Map<number, Drawn>> {
  const months = new Map<string, Map<number, Drawn>>();
  const rows = db.prepare(
    `SELECT workspace_id, hour, sum(included) AS included, sum(purchased) AS purchased, sum(overage) AS overage
     FROM temp.hours WHERE ?1 IS NULL OR workspace_id = ?1 GROUP BY 1, 2`,
  );
  for (const row of rows.iterate(workspaceId ?? null)) {
    addDrawn(months, text(row, "workspace_id"), periodOf(number(row, "hour") * hourMs).start, {
      includedMilliCu: number(row, "included"),
      purchasedMilliCu: number(row, "purchased"),
      overageMilliCu: number(row, "overage"),
    });
  }
  return months;
}

function addRecent(db: DatabaseSync): void {
  const sums = Sums.load(db);
  const checkpoint = number(singleRow(db, "SELECT seq FROM checkpoint"), "seq");
  const commits = db.prepare("SELECT records FROM commits WHERE seq > ?");
  for (const row of commits.iterate(checkpoint)) sums.add(blob(row, "records"));
  sums.writeHours(db, "temp.recent");
}

function chargesWithin(db: DatabaseSync, bounds: ChargeBounds | undefined): unknown[] {
  if (bounds === undefined) throw new Error("a statement on charges needs bounds");
  const { from, to, workspaceId } = bounds;
  const nameReader = new NameReader(db);
  const found: unknown[] = [];
  for (const { records } of commitsWithin(db, from, to)) {
    for (const row of chargesOf(records, "", nameReader, { from, to, after: -1 })) {
      if (row.workspaceId !== workspaceId) continue;
      const { cachedTokens: cached_tokens, reasoningTokens: reasoning_tokens } = row;
      found.push({ ...usageJson(row), cached_tokens, reasoning_tokens });
    }
  }
  return found;
}

export interface ReportJob {
  readonly dataDir: string;
  /** One of the two. */
  readonly report?: UsageRange;
  readonly spend?: SpendQuery;
}

/**
 * Runs in a thread of the pool. Resolves to undefined if the report has too many groups. Rejects with StoreError. A
 * folder in which no gateway has metered has no charges.
 */
export default async function run({
  dataDir,
  report,
  spend,
}: ReportJob): Promise<Uint8Array | undefined> {
  const make: Work = async (read, readMonths) => {
    if (report !== undefined) return usageReport(read, report);
    return spend && JSON.stringify(await readSpend(read, readMonths, spend));
  };
  const made = hasJournal(dataDir)
    ? await withFolderCharges(dataDir, make)
    : await make(
        async () => [],
        async () => new Map(),
      );
  return made === undefined ? undefined : new TextEncoder().encode(made);
}
