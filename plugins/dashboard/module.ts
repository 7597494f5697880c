import type { Module } from "sluice-gateway/internal/module";
import dashboard from "./dashboard/index.ts";

interface DashboardSettings {
  readonly oidc?: { readonly clientSecret?: unknown };
}

export default {
  services: [dashboard],
  alwaysOn: ["dashboard"],
  sharedSettings({ dashboard: given }) {
    // The section has been validated. A user must have the same rights on all gateways, whatever the secret is.
    const { clientSecret: _, ...oidc } = ((given ?? {}) as DashboardSettings).oidc ?? {};
    return { dashboard: oidc };
  },
  tables: async () => (await import("./dashboard/history/store.ts")).historyTables,
  // Earlier releases kept the health over time in this file.
  disposable: ["history.db"],
} satisfies Module;
