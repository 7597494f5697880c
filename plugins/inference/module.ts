import type { Module } from "sluice-gateway/internal/module";
import networks from "./networks/index.ts";
import { pricesOfNetworks } from "./networks/prices-of-networks.ts";
import { productionProblems } from "./networks/production.ts";

declare module "sluice-gateway/plugin" {
  interface SluiceErrors {
    SLUICE_NETWORK_KIND: string;
  }
}

export default {
  services: [networks],
  production: productionProblems,
  sharedSettings: pricesOfNetworks,
  errors: {
    calls: {
      MODEL_NOT_FOUND: { message: "unknown model" },
      MODEL_NOT_AVAILABLE: { message: "the model has no active worker" },
    },
    faults: {
      SLUICE_NETWORK_KIND:
        "Write the http(s) URL of the server, or `kind: enclave` if a worker's encrypted stream is at this URL. Write `speaks` only for the kind openai.",
    },
  },
  init: async () => (await import("./templates/init.ts")).init,
  demo: async () => (await import("./demo/demo.ts")).demo,
} satisfies Module;
