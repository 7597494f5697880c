import type { Module } from "../../src/module.ts";

export default {
  demo: async () => (await import("./demo/demo.ts")).demo,
} satisfies Module;
