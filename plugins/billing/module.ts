import type { Module } from "sluice-gateway/module";
import accounts from "./accounts/index.ts";
import metering from "./metering/index.ts";

export default {
  services: [metering, accounts],
  alwaysOn: ["metering", "accounts"],
  production({ metering }) {
    // The section has been validated.
    const { durability } = (metering ?? {}) as { readonly durability?: string };
    if (durability !== "async") return [];
    const message = "charges of the last moments before a crash are lost with `durability: async`";
    return [{ code: "SLUICE_STRICT_DURABILITY", pointer: "/metering/durability", message }];
  },
  async databases() {
    const { accountsVersion } = await import("./accounts/embedded/schema.ts");
    const { journalVersion } = await import("./metering/journal-schema.ts");
    return { "accounts.db": accountsVersion, "journal.db": journalVersion };
  },
  commands: {
    keys: { load: async () => (await import("./commands/keys.ts")).keys },
    workspaces: { load: async () => (await import("./commands/workspaces.ts")).workspaces },
    audit: { load: async () => (await import("./commands/audit.ts")).audit },
    store: { load: async () => (await import("./commands/store.ts")).store },
    usage: { load: async () => (await import("./commands/usage.ts")).usage },
  },
  firstSteps: async () => (await import("./commands/first-steps.ts")).firstSteps,
  demo: async () => (await import("./demo/demo.ts")).demo,
} satisfies Module;
