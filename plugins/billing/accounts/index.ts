import { defineService } from "sluice-gateway/plugin";
import { plansOf, sections, type Options } from "./options.ts";
import type { RunningAccounts } from "./start.ts";

export default defineService<Options, RunningAccounts>({
  name: "accounts",
  description: "Workspaces, API keys, idempotency keys, tickets and the audit log.",
  sections,
  uses: ["metering"],
  permissions: { deployment: ["store", "seal", "claims"] },
  update(accounts, options) {
    accounts.setPlans(plansOf(options));
  },
  async dryRun(options, host) {
    const { accountsWithoutStore } = await import("./without-store.ts");
    return accountsWithoutStore(plansOf(options), host);
  },
  async start(options, host, context) {
    const { startAccounts } = await import("./start.ts");
    return startAccounts(options, host, context);
  },
});
