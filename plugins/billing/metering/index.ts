/** Service `metering`: reserves and charges credit, and keeps the journal of charges. */
import { defineService } from "sluice-gateway/plugin";
import type { Metering } from "sluice-gateway/services";
import { sections, type Options } from "./options.ts";

export default defineService<Options, Metering>({
  name: "metering",
  description: "Reserves and charges credit, and keeps the journal of charges.",
  sections,
  fixedSections: ["metering"],
  permissions: { deployment: ["store"] },
  dryRun: () => withoutJournal,
  async start(options, host, context) {
    const { startMetering } = await import("./start.ts");
    return startMetering(options, host, context);
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
