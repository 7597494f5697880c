import type { Module } from "sluice-gateway/internal/module";
import attestation from "./attestation/index.ts";
import confidentialRelay from "./confidential-relay/index.ts";
import enclaveWorkers from "./enclave-workers/index.ts";
import sealedNetworks from "./sealed-networks/index.ts";
import { productionProblems } from "./enclave-workers/options.ts";

declare module "sluice-gateway/plugin" {
  interface SluiceErrors {
    SLUICE_NETWORK_EVIDENCE: string;
    SLUICE_STRICT_EVIDENCE: string;
  }
}

export default {
  services: [attestation, enclaveWorkers, sealedNetworks, confidentialRelay],
  production: productionProblems,
  errors: {
    faults: {
      SLUICE_NETWORK_EVIDENCE:
        "List the images that you trust in `image_hashes`. For development, write `kind: simulated` (in prod this also needs CONFIDENTIAL_ALLOW_SIMULATED=1).",
      SLUICE_STRICT_EVIDENCE: "List the hashes of the images that you trust in `image_hashes`.",
    },
  },
  companions: { "enclave-workers": "networks", "sealed-networks": "networks" },
  tables: async () => (await import("./confidential-relay/tables.ts")).streamTables,
  commands: {
    connect: {
      load: async () => (await import("./commands/connect.ts")).connect,
      // It serves the programs of one user.
      semiSpaceMiB: 2,
    },
    verify: { load: async () => (await import("./commands/verify.ts")).verify },
    policy: { load: async () => (await import("./commands/policy.ts")).policy },
    worker: { load: async () => (await import("./commands/worker.ts")).worker, semiSpaceMiB: 8 },
  },
  init: async () => ({
    templates: {
      connect: {
        summary: "a verified way to an encrypted network, for programs of this machine",
        file: "plugins/confidential/templates/connect.yaml",
        hasDemo: false,
      },
    },
    variables: {
      SLUICE_URL: "Address of the other gateway, such as https://gateway.example.",
      SLUICE_API_KEY: "Your key at that gateway, with the capability inference.",
      SLUICE_LOCAL_KEY: "Key of the programs on this machine: at least 16 characters.",
      SLUICE_NETWORK: "Network of that gateway. By default, every network with evidence.",
      SLUICE_MODEL: "Model that answers for names that the network does not list.",
      SLUICE_TERMINATION: "Where encryption must end: worker or gateway.",
      SLUICE_POLICY_KEY: "Public key of the operator's policy document, which lists what may run.",
      SLUICE_MAX_PRICE: "Highest price of a token, in nano native tokens.",
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
