import type { Module } from "sluice-gateway/internal/module";
import type { GatewayErrors } from "sluice-gateway/plugin";
import accounts from "./accounts/index.ts";
import metering from "./metering/index.ts";

declare module "sluice-gateway/plugin" {
  interface SluiceErrors {
    SLUICE_STRICT_DURABILITY: string;
  }
}

interface MeteringSettings {
  readonly export?: { readonly headers?: unknown };
}

export default {
  services: [metering, accounts],
  alwaysOn: ["metering", "accounts"],
  production(sections) {
    // The section has been validated.
    const { durability } = (sections["metering"] ?? {}) as { readonly durability?: string };
    if (durability !== "async") return [];
    const message = "charges of the last moments before a crash are lost with `durability: async`";
    return [{ code: "SLUICE_STRICT_DURABILITY", pointer: "/metering/durability", message }];
  },
  sharedSettings({ plans, metering: given }) {
    // The section has been validated. The header fields of the export may be secrets, and do not affect any amount.
    const { export: exported, ...rest } = (given ?? {}) as MeteringSettings;
    const { headers: _, ...destination } = exported ?? {};
    return { plans, metering: { ...rest, export: destination } };
  },
  tables: async () => (await import("./accounts/tables.ts")).accountTables,
  async databases() {
    const { chargesVersion, takenOverVersion } = await import("./metering/journal-schema.ts");
    return { "charges.db": chargesVersion, "journal.db": takenOverVersion };
  },
  async migrations() {
    const { chargeMigrations } = await import("./leases/schema.ts");
    return chargeMigrations;
  },
  positions: {
    "usage-export.json":
      "If charges were delivered to billing after the backup, read docs/operations.md, section Backup, before you start.",
  },
  errors: {
    refusals: {
      GATEWAY_INVALID_IDEMPOTENCY_KEY: { status: 400, message: "invalid idempotency key" },
      GATEWAY_IDEMPOTENCY_KEY_MISMATCH: {
        status: 422,
        message: "the idempotency key was used with another body",
      },
      GATEWAY_CU_LIMIT_EXCEEDED: {
        status: 429,
        message: "credit limit exceeded",
        retryAfter: 60,
      },
    } satisfies Partial<GatewayErrors>,
    faults: { SLUICE_STRICT_DURABILITY: "Write `durability: settled`." },
  },
  ownFields: ["x-used-cu-milli"],
  commands: {
    keys: { load: async () => (await import("./commands/keys.ts")).keys },
    workspaces: { load: async () => (await import("./commands/workspaces.ts")).workspaces },
    audit: { load: async () => (await import("./commands/audit.ts")).audit },
    usage: { load: async () => (await import("./commands/usage.ts")).usage },
  },
  store: async () => (await import("./commands/replicas.ts")).replicaCommands,
  firstSteps: async () => (await import("./templates/init.ts")).firstSteps,
  init: async () => (await import("./templates/init.ts")).init,
  demo: async () => (await import("./demo/demo.ts")).demo,
} satisfies Module;
