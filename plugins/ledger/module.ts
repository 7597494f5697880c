import type { Module } from "sluice-gateway/module";
import ledger from "./ledger/index.ts";

export default {
  services: [ledger],
  errors: {
    calls: {
      METHOD_NOT_ALLOWED: { message: "method not whitelisted" },
      NODE_ERROR: { message: "the node answered with an error", isFailure: true },
    },
  },
  init: async () => (await import("./templates/init.ts")).init,
  demo: async () => (await import("./demo/demo.ts")).demo,
} satisfies Module;
