/** The service of usage reports, on the data folder and on PostgreSQL. */
import { threadModule } from "sluice-gateway/internal/package-files";
import type { ComputeThreads, Log, Postgres } from "sluice-gateway/plugin";
import type { Spend, UsageReports } from "sluice-gateway/services";
import type { ReadCharges, ReadMonths } from "./read-charges.ts";
import type { ReportJob } from "./report-job.ts";
import { usageReport, maxGroups } from "./report.ts";
import { readSpend } from "./spend.ts";

const jobModule = threadModule("plugins/billing/metering/usage/report-job");

/** Reports of the charges in the data folder. They are made in threads, because they read many rows. */
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
      if (done === undefined) return { kind: "unavailable" };
      if (done.bytes === undefined) return { kind: "tooManyGroups", maxGroups };
      return { kind: "done", json: done.bytes };
    },
    async spend(query) {
      const done = await run({ spend: query });
      if (done?.bytes === undefined) return { kind: "unavailable" };
      // The result of `readSpend`.
      return { kind: "done", spend: JSON.parse(new TextDecoder().decode(done.bytes)) as Spend };
    },
  };
}

/** Reports of the charges of all gateways on a database. */
export function createDatabaseReports(
  database: Postgres,
  readMonths: ReadMonths,
  log: Log,
): UsageReports {
  const read: ReadCharges = (text, values) => database.query("usage", text, values);
  const failed = (err: unknown): { readonly kind: "unavailable" } => {
    log.error({ err }, notMade);
    return { kind: "unavailable" };
  };
  return {
    async report(range) {
      try {
        const json = await usageReport(read, range);
        if (json === undefined) return { kind: "tooManyGroups", maxGroups };
        return { kind: "done", json: new TextEncoder().encode(json) };
      } catch (error) {
        return failed(error);
      }
    },
    async spend(query) {
      try {
        return { kind: "done", spend: await readSpend(read, readMonths, query) };
      } catch (error) {
        return failed(error);
      }
    },
  };
}

const notMade = "a usage report was not made";
