import type { Module } from "sluice-gateway/module";
import networks from "./networks/index.ts";
import { productionProblems } from "./networks/production.ts";

export default {
  services: [networks],
  production: productionProblems,
  demo: async () => (await import("./demo/demo.ts")).demo,
} satisfies Module;
