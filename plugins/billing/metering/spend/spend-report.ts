/** Reads the spend of a range of days from the sums in `spend.db`, after the new charges were added to them. */
import type { DatabaseSync } from "node:sqlite";
import { transferredResult } from "sluice-gateway/compute";
import type { Spend, SpendAnswer, SpendMember, SpendQuery } from "sluice-gateway/services";
import { explain, number, text } from "sluice-gateway/store";
import { NameReader } from "../commits.ts";
import { hasJournal, openJournalReader } from "../journal-reader.ts";
import { journalPath } from "../journal-schema.ts";
import { maxSeries } from "../usage-report-json.ts";
import { addNewCharges } from "./fold.ts";
import { dayMs, memberNumber, monthNumber, monthStart, openSpendDatabase, span } from "./schema.ts";
import { amountsOf, noSpend, spendOf, type NamedSum } from "./spend-of.ts";
import { readHours } from "./read-hours.ts";
import { maxHourlyCharges, type SpendSteps } from "./steps.ts";

export interface SpendJob extends SpendQuery {
  readonly dataDir: string;
}

export interface SpendLimits {
  /** Time after which a job that adds up the past ends, so that other jobs of the thread run. */
  readonly turnMs: number;
  /** Number of charges that are added to the sums in one transaction. */
  readonly charges: number;
  /** Maximum number of charges in a range with hours. */
  readonly hourlyCharges: number;
}

const defaultLimits: SpendLimits = {
  turnMs: 5_000,
  charges: 200_000,
  hourlyCharges: maxHourlyCharges,
};

/** Runs in a thread of the pool. Returns a `SpendAnswer` as JSON. Throws StoreError. */
export default function run(job: SpendJob): unknown {
  return transferredResult(new TextEncoder().encode(JSON.stringify(spendAnswer(job))));
}

/** Throws StoreError. */
export function spendAnswer(job: SpendJob, limits: SpendLimits = defaultLimits): SpendAnswer {
  const { dataDir } = job;
  if (!hasJournal(dataDir)) return { kind: "done", spend: noSpend(job) };
  const journal = openJournalReader(dataDir);
  try {
    const sums = openSpendDatabase(dataDir);
    try {
      const until = performance.now() + limits.turnMs;
      const isLate = (): boolean => performance.now() >= until;
      const isDone = addNewCharges({ sums, journal, maxCharges: limits.charges }, isLate);
      if (!isDone) return { kind: "building" };
      return { kind: "done", spend: readSpend(sums, journal, job, limits) };
    } finally {
      sums.close();
    }
  } catch (error) {
    throw explain(error, journalPath(dataDir));
  } finally {
    journal.close();
  }
}

function readSpend(
  sums: DatabaseSync,
  journal: DatabaseSync,
  job: SpendJob,
  { hourlyCharges }: SpendLimits,
): Spend {
  const names = new NameReader(journal);
  const scope = job.workspaceId === undefined ? 0 : nameNumber(journal, job.workspaceId);
  if (scope === undefined) return noSpend(job);
  const all = readGroups(sums, scope, job);
  const largest = all.toSorted((a, b) => b.usedMilliCu - a.usedMilliCu || a.name - b.name);
  const groups = largest.map(({ name, ...sum }, index): NamedSum => ({
    ...sum,
    // A name is read only if it is shown.
    name: index < job.limit ? nameOf(sums, names, job.by, name) : undefined,
  }));
  const top = largest.map(({ name }) => name).slice(0, maxSeries);
  const hours = readHours(sums, journal, { ...job, scope, names: top, maxCharges: hourlyCharges });
  return spendOf(job, groups, hours ?? readDays(sums, scope, job, top));
}

/** A sum with the number of its name. */
type NumberedSum = Omit<NamedSum, "name"> & { readonly name: number };

/** Whole months of all workspaces are read as months, and the rest as days. */
function readGroups(sums: DatabaseSync, scope: number, { by, from, to }: SpendJob): NumberedSum[] {
  const firstMonth = monthNumber(from - 1) + 1;
  const endMonth = monthNumber(to);
  const ranges =
    scope === 0 && firstMonth < endMonth
      ? [
          [span.day, from / dayMs, monthStart(firstMonth) / dayMs],
          [span.month, firstMonth, endMonth],
          [span.day, monthStart(endMonth) / dayMs, to / dayMs],
        ]
      : [[span.day, from / dayMs, to / dayMs]];
  const member = memberNumber(by);
  const rows = sums
    .prepare(
      `SELECT name, sum(calls) AS calls, sum(included) AS included, sum(purchased) AS purchased,
         sum(overage) AS overage, sum(input_tokens) AS input_tokens, sum(output_tokens) AS output_tokens
       FROM (${ranges
         .map(
           () =>
             "SELECT * FROM sums WHERE scope = ? AND member = ? AND span = ? AND start >= ? AND start < ?",
         )
         .join(" UNION ALL ")}) GROUP BY name`,
    )
    .all(...ranges.flatMap((range) => [scope, member, ...range]));
  return rows.map((row) => ({ name: number(row, "name"), ...amountsOf(row) }));
}

function readDays(
  sums: DatabaseSync,
  scope: number,
  job: SpendJob,
  names: readonly number[],
): SpendSteps {
  const steps = readTotals(sums, scope, job);
  return { stepMs: dayMs, steps, series: readSeries(sums, scope, job, names) };
}

/** Returns the milli-CU of each day. The member `tool` has the fewest rows, and every charge counts in every member. */
function readTotals(sums: DatabaseSync, scope: number, { from, to }: SpendJob): number[] {
  const days = Array<number>((to - from) / dayMs).fill(0);
  const rows = sums
    .prepare(
      `SELECT start, sum(included + purchased + overage) AS used FROM sums
       WHERE scope = ? AND member = ? AND span = ? AND start >= ? AND start < ? GROUP BY start`,
    )
    .all(scope, memberNumber("tool"), span.day, from / dayMs, to / dayMs);
  for (const row of rows) days[number(row, "start") - from / dayMs] = number(row, "used");
  return days;
}

/** One lookup per day and name, because a scan of the range would read the rows of all names. */
function readSeries(
  sums: DatabaseSync,
  scope: number,
  { by, from, to }: SpendJob,
  names: readonly number[],
): number[][] {
  const find = sums.prepare(
    `SELECT included + purchased + overage AS used FROM sums
     WHERE scope = ? AND member = ? AND span = ? AND start = ? AND name = ?`,
  );
  const first = from / dayMs;
  const count = (to - from) / dayMs;
  return names.map((name) =>
    Array.from({ length: count }, (_, day) => {
      const row = find.get(scope, memberNumber(by), span.day, first + day, name);
      return row === undefined ? 0 : number(row, "used");
    }),
  );
}

function nameNumber(journal: DatabaseSync, name: string): number | undefined {
  const row = journal.prepare("SELECT id FROM names WHERE name = ?").get(name);
  return row && number(row, "id");
}

function nameOf(
  sums: DatabaseSync,
  names: NameReader,
  by: SpendMember,
  id: number,
): string | undefined {
  if (id === 0) return undefined;
  if (by !== "tag") return names.get(id);
  const row = sums.prepare("SELECT name FROM tags WHERE id = ?").get(id);
  if (row === undefined) throw new Error(`spend.db has no tag with the id ${id}`);
  return text(row, "name");
}
