/**
 * Usage reports from the journal. They are computed in background threads of the gateway, because they read many
 * charges.
 */
import { threadModule } from "sluice-gateway/package-files";
import type { ComputeThreads, Log } from "sluice-gateway/plugin";
import type { SpendAnswer, UsageReports } from "sluice-gateway/services";
import type { SpendJob } from "./spend/spend-report.ts";
import { maxGroups } from "./usage-report-json.ts";
import type { UsageReportJob } from "./usage-report.ts";

const reportModule = threadModule("plugins/billing/metering/usage-report");
const spendModule = threadModule("plugins/billing/metering/spend/spend-report");

/** `dataDir`: the folder of the journal. */
export function createJournalReports(
  dataDir: string,
  threads: ComputeThreads,
  log: Log,
): UsageReports {
  const run = async (
    module: string,
    input: object,
    signal?: AbortSignal,
  ): Promise<{ readonly bytes: Uint8Array | undefined } | undefined> => {
    const done = await threads.run({ module, input, transfer: [], signal });
    if (done.ok) return done;
    if (done.reason !== "aborted")
      log.error({ reason: done.reason }, "a usage report was not made");
    return undefined;
  };
  return {
    async report(range, signal) {
      const input: UsageReportJob = { dataDir, ...range };
      const done = await run(reportModule, input, signal);
      if (done === undefined) return { kind: "unavailable" };
      if (done.bytes === undefined) return { kind: "tooManyGroups", maxGroups };
      return { kind: "done", json: done.bytes };
    },
    async spend(query) {
      const input: SpendJob = { dataDir, ...query };
      const done = await run(spendModule, input);
      if (done === undefined) return { kind: "unavailable" };
      // The result of the job, which `spendAnswer` returns.
      return JSON.parse(new TextDecoder().decode(done.bytes)) as SpendAnswer;
    },
  };
}
