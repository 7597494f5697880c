import type { Module } from "sluice-gateway/module";
import ledger from "./ledger/index.ts";

export default {
  services: [ledger],
  demo: async () => (await import("./demo/demo.ts")).demo,
} satisfies Module;
