import type { Module } from "sluice-gateway/module";
import attestation from "./attestation/index.ts";
import confidentialRelay from "./confidential-relay/index.ts";
import enclaveWorkers from "./enclave-workers/index.ts";
import { productionProblems } from "./enclave-workers/production.ts";

declare module "sluice-gateway/plugin" {
  interface SluiceErrors {
    SLUICE_NETWORK_EVIDENCE: string;
    SLUICE_STRICT_EVIDENCE: string;
  }
}

export default {
  services: [attestation, enclaveWorkers, confidentialRelay],
  production: productionProblems,
  errors: {
    faults: {
      SLUICE_NETWORK_EVIDENCE:
        "List the images that you trust in `image_hashes`. For development, write `kind: simulated` (in prod this also needs CONFIDENTIAL_ALLOW_SIMULATED=1).",
      SLUICE_STRICT_EVIDENCE: "List the hashes of the images that you trust in `image_hashes`.",
    },
  },
  companions: { "enclave-workers": "networks" },
  tables: async () => (await import("./confidential-relay/tables.ts")).streamTables,
  commands: {
    verify: { load: async () => (await import("./commands/verify.ts")).verify },
    policy: { load: async () => (await import("./commands/policy.ts")).policy },
    worker: { load: async () => (await import("./commands/worker.ts")).worker, isServer: true },
  },
  init: async () => ({
    variables: {
      CONFIDENTIAL_ALPHA_URL:
        "Address of the stream of an enclave worker, such as ws://127.0.0.1:8090/cstream/1.",
      CONFIDENTIAL_ALPHA_STATUS_URL:
        "A document that lists the workers of that network and their prices.",
      CONFIDENTIAL_EVIDENCE:
        "Source of the attestation evidence of this gateway: auto, tdx, sev-snp, dstack or simulated.",
    },
  }),
  demo: async () => (await import("./demo/demo.ts")).demo,
} satisfies Module;
