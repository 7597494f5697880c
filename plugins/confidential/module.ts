import type { Module } from "sluice-gateway/module";
import attestation from "./attestation/index.ts";
import confidentialRelay from "./confidential-relay/index.ts";
import enclaveWorkers from "./enclave-workers/index.ts";
import { productionProblems } from "./enclave-workers/production.ts";

export default {
  services: [attestation, enclaveWorkers, confidentialRelay],
  production: productionProblems,
  companions: { "enclave-workers": "networks" },
  async databases() {
    const { receiptsVersion } = await import("./confidential-relay/receipts-schema.ts");
    return { "receipts.db": receiptsVersion };
  },
  commands: {
    verify: { load: async () => (await import("./commands/verify.ts")).verify },
    policy: { load: async () => (await import("./commands/policy.ts")).policy },
    worker: { load: async () => (await import("./commands/worker.ts")).worker, isServer: true },
  },
  demo: async () => (await import("./demo/demo.ts")).demo,
} satisfies Module;
