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
  async dryRun() {
    const { meteringWithoutJournal } = await import("./without-journal.ts");
    return meteringWithoutJournal;
  },
  async start(options, host, context) {
    const { startMetering } = await import("./start.ts");
    return startMetering(options, host, context);
  },
});
