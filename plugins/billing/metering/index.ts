import {
  defineService,
  type Host,
  type ServiceContext,
  type ServiceHooks,
} from "sluice-gateway/plugin";
import type { Metering } from "sluice-gateway/services";
import { exportOf, sections, type Options } from "./options.ts";

export default defineService<Options, Metering>({
  name: "metering",
  description: "Reserves and charges credit, and keeps the journal of charges.",
  sections,
  fixedSections: ["metering"],
  permissions: { deployment: ["store"] },
  dryRun: () => withoutJournal,
  async start(options, host, context) {
    const started = await startMeter(options, host, context);
    const settings = exportOf(options);
    const isMain = host.threads === undefined || host.threads.index === 0;
    if (settings !== undefined && isMain) {
      const { openUsageExport } = await import("./export/open.ts");
      context.keep(
        "export",
        () => openUsageExport(host, settings),
        (usageExport) => usageExport.close(),
      );
    }
    return started;
  },
});

const empty = {
  usedMilliCu: 0,
  limitMilliCu: undefined,
  freesAt: undefined,
  roomAt: undefined,
  emptyAt: undefined,
};

/** Metering with which `sluice check` starts the plugins that use it. */
const withoutJournal: Metering = {
  reserve: () => ({ kind: "unavailable" }),
  reserveWithoutLimit: () => ({ kind: "unavailable" }),
  outageMs: undefined,
  purchasedLeft: () => 0,
  keyWindows: () => ({ day: empty, month: empty, openMilliCu: 0 }),
  workspaceUsage: () => ({
    periodStart: 0,
    includedMilliCu: 0,
    purchasedMilliCu: 0,
    overageMilliCu: 0,
    openMilliCu: 0,
  }),
  usage: {
    report: () => Promise.resolve({ kind: "unavailable" }),
    spend: () => Promise.resolve({ kind: "unavailable" }),
  },
};

/** The driver of PostgreSQL and the journal are imported only where they are used. */
async function startMeter(
  options: Options,
  host: Host,
  context: ServiceContext,
): Promise<ServiceHooks<Metering>> {
  const database = host.store.postgres;
  if (database !== undefined) {
    const { startLeased } = await import("../leases/start.ts");
    return startLeased(options, database, host, context);
  }
  const { threads } = host;
  if (threads !== undefined && threads.index > 0) {
    const { startInThread } = await import("./start-thread.ts");
    return startInThread(options, threads, host, context);
  }
  const { startEmbedded } = await import("./start-embedded.ts");
  return startEmbedded(options, host, context);
}
