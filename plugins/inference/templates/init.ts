/** The part of `sluice init` that is about inference. */
import type { InitParts } from "sluice-gateway/internal/module";

export const init: InitParts = {
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
};
