import type { Module } from "../../src/module.ts";
import ledger from "./ledger/index.ts";

export default {
  services: [ledger],
  demo: async () => (await import("./demo/demo.ts")).demo,
} satisfies Module;
