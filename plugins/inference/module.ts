import type { Module } from "sluice-gateway/internal/module";
import networks, { pricesOfNetworks, productionProblems } from "./networks/index.ts";

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
  init: async () => ({
    templates: {
      ai: {
        summary: "chat completions, models and the encrypted stream",
        file: "plugins/inference/templates/ai.yaml",
        hasDemo: true,
      },
    },
    variables: {
      CONFIDENTIAL_CLASSIC_URL:
        "Address of a server with OpenAI's chat completions API, such as http://127.0.0.1:8000.",
      CONFIDENTIAL_CLASSIC_STATUS_URL:
        "A document that lists the workers of that network and their prices.",
      CONFIDENTIAL_CLASSIC_PASSES:
        "What its models get in addition to texts. Agents need `tools, sampling, format, reasoning`.",
      PRICE_PER_TOKEN_NANO: "Price of a token, in nano native tokens.",
      TOKEN_USD_RATE:
        "USD per native token: a number such as 0.25, or the URL of a JSON document with a JSON pointer, such as https://host/prices#/usd.",
    },
  }),
  demo: async () => (await import("./demo/demo.ts")).demo,
} satisfies Module;
