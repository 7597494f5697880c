import { defineService } from "sluice-gateway/plugin";
import { oidcOptions, sections, type Options } from "./options.ts";

export default defineService<Options, undefined>({
  name: "dashboard",
  description: "The operator's dashboard on the admin listener.",
  runsOnce: true,
  sections,
  uses: ["gateway", "accounts", "metering"],
  permissions: { deployment: ["store", "seal", "claims"] },
  dryRun: () => undefined,
  async start(options, host, context) {
    const { openDashboard } = await import("./start.ts");
    return { service: undefined, admin: openDashboard(oidcOptions(options), host, context) };
  },
});
