import type { Module } from "sluice-gateway/module";
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
  async databases() {
    const { historyVersion } = await import("./dashboard/history/sqlite-store.ts");
    return { "history.db": historyVersion };
  },
  disposable: ["history.db"],
  async migrations() {
    const { historyMigrations } = await import("./dashboard/history/postgres-store.ts");
    return historyMigrations;
  },
} satisfies Module;
