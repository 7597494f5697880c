import type { InitParts } from "sluice-gateway/internal/module";

export const init: InitParts = {
  templates: {
    ledger: {
      summary: "the JSON-RPC API of a Substrate node",
      file: "plugins/ledger/templates/ledger.yaml",
      hasDemo: true,
    },
  },
  variables: {
    LEDGER_RPC_URL:
      "Address of the Substrate node (http, https, ws or wss). Separate several addresses with commas.",
  },
};
