/** Service `dashboard`: the operator's page on the admin listener, and its JSON API. */
import { defineService } from "sluice-gateway/plugin";

export default defineService<Record<string, never>, undefined>({
  name: "dashboard",
  description: "The operator's dashboard on the admin listener.",
  uses: ["gateway", "accounts", "metering"],
  permissions: { deployment: ["store", "seal", "claims"] },
  dryRun: () => undefined,
  async start(_, host, context) {
    const { openDashboard } = await import("./dashboard.ts");
    return { service: undefined, admin: openDashboard(host, context) };
  },
});
