import type { Module } from "../../src/module.ts";
import networks from "./networks/index.ts";

export default {
  services: [networks],
  demo: async () => (await import("./demo/demo.ts")).demo,
} satisfies Module;
