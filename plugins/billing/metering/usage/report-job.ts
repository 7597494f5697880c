/** Makes a usage report or a spend report from the data folder. This is a job of a thread, because it reads many rows. */
import { transferredResult } from "sluice-gateway/internal/compute";
import type { SpendQuery, UsageRange } from "sluice-gateway/services";
import { hasJournal } from "../journal-reader.ts";
import { withFolderCharges } from "./folder-charges.ts";
import type { ReadCharges, ReadMonths } from "./read-charges.ts";
import { usageReport } from "./report.ts";
import { readSpend } from "./spend.ts";

export interface ReportJob {
  readonly dataDir: string;
  /** One of the two. */
  readonly report?: UsageRange;
  readonly spend?: SpendQuery;
}

/** Runs in a thread of the pool. Returns the report in UTF-8. */
export default async function run(job: ReportJob): Promise<unknown> {
  const made = await makeReport(job);
  return made === undefined ? undefined : transferredResult(new TextEncoder().encode(made));
}

/** Returns the report as JSON. Undefined if it has too many groups. Rejects with StoreError. */
export function makeReport({ dataDir, report, spend }: ReportJob): Promise<string | undefined> {
  return onCharges(dataDir, async (read, readMonths) => {
    if (report !== undefined) return usageReport(read, report);
    return spend && JSON.stringify(await readSpend(read, readMonths, spend));
  });
}

/** A folder in which no gateway has metered has no charges. */
function onCharges<T>(
  dataDir: string,
  work: (read: ReadCharges, readMonths: ReadMonths) => Promise<T>,
): Promise<T> {
  if (hasJournal(dataDir)) return withFolderCharges(dataDir, work);
  return work(
    async () => [],
    async () => new Map(),
  );
}
