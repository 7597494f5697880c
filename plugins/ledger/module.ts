import type { Module } from "sluice-gateway/internal/module";
import ledger from "./ledger/index.ts";

export default {
  services: [ledger],
  sharedSettings({ upstreams }) {
    // The section has been validated.
    const entries = (upstreams ?? {}) as Readonly<
      Record<string, { readonly methods?: unknown } | null>
    >;
    const methods = Object.entries(entries).map(([name, entry]) => [name, entry?.methods]);
    return { upstreams: Object.fromEntries(methods) as object };
  },
  errors: {
    calls: {
      METHOD_NOT_ALLOWED: { message: "method not whitelisted" },
      NODE_ERROR: { message: "the node answered with an error", isFailure: true },
      NODES_DISAGREE: { message: "the nodes gave different answers", isFailure: true },
    },
  },
  init: () =>
    Promise.resolve({
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
    }),
  demo: async () => (await import("./demo/demo.ts")).demo,
} satisfies Module;
