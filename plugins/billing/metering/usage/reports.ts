import { threadModule } from "sluice-gateway/internal/package-files";
import type { ComputeThreads, Log, Postgres } from "sluice-gateway/plugin";
import type { Spend, UsageReport, UsageReports } from "sluice-gateway/services";
import { type ReadCharges, type ReadMonths, usageReport, maxGroups } from "./report.ts";
import type { ReportJob } from "./folder-charges.ts";
import { readSpend } from "./spend.ts";

const jobModule = threadModule("plugins/billing/metering/usage/folder-charges");

/** Reports are made in threads, because they read many rows. */
export function createFolderReports(
  dataDir: string,
  threads: ComputeThreads,
  log: Log,
): UsageReports {
  const run = async (job: Omit<ReportJob, "dataDir">, signal?: AbortSignal) => {
    const input: ReportJob = { dataDir, ...job };
    const done = await threads.run({ module: jobModule, input, transfer: [], signal });
    if (done.ok) return done;
    if (done.reason !== "aborted") log.error({ reason: done.reason }, notMade);
    return undefined;
  };
  return {
    async report(range, signal) {
      const done = await run({ report: range }, signal);
      if (done === undefined) return unavailable;
      if (done.bytes === undefined) return { kind: "tooManyGroups", maxGroups };
      return { kind: "done", json: done.bytes };
    },
    async spend(query) {
      const done = await run({ spend: query });
      if (done?.bytes === undefined) return unavailable;
      // The result of `readSpend`.
      return { kind: "done", spend: JSON.parse(new TextDecoder().decode(done.bytes)) as Spend };
    },
  };
}

export function createDatabaseReports(
  database: Postgres,
  readMonths: ReadMonths,
  log: Log,
): UsageReports {
  const read: ReadCharges = (text, values) => database.query("usage", text, values);
  const failed = (err: unknown): typeof unavailable => {
    log.error({ err }, notMade);
    return unavailable;
  };
  return {
    report: (range) => usageReport(read, range).then(reportOf, failed),
    spend: (query) =>
      readSpend(read, readMonths, query).then((spend) => ({ kind: "done", spend }), failed),
  };
}

function reportOf(json: string | undefined): UsageReport {
  if (json === undefined) return { kind: "tooManyGroups", maxGroups };
  return { kind: "done", json: new TextEncoder().encode(json) };
}

const unavailable = { kind: "unavailable" } as const;
const notMade = "a usage report was not made";
