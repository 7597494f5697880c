import { defineService } from "sluice-gateway/plugin";
import { sections, type Options } from "./options.ts";

export default defineService<Options, undefined>({
  name: "alerts",
  description:
    "Posts signed events to a webhook: limits, ejected backends, failed reloads, a stuck export, a full disk.",
  runsOnce: true,
  sections,
  uses: ["gateway"],
  usesIfInstalled: ["accounts", "metering"],
  permissions: { deployment: ["store", "claims"] },
  dryRun: () => undefined,
  async start({ alerts }, host, context) {
    const { url, secret } = alerts;
    if (url === undefined || secret === undefined) return { service: undefined };
    const { startAlerts } = await import("./start.ts");
    return { service: undefined, ...startAlerts({ ...alerts, url, secret }, host, context) };
  },
});
