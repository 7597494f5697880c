import type { Module } from "sluice-gateway/module";
import dashboard from "./dashboard/index.ts";

export default {
  services: [dashboard],
  alwaysOn: ["dashboard"],
  async databases() {
    const { historyVersion } = await import("./dashboard/history/sqlite-store.ts");
    return { "history.db": historyVersion };
  },
  async migrations() {
    const { historyMigrations } = await import("./dashboard/history/postgres-store.ts");
    return historyMigrations;
  },
} satisfies Module;
