import type { Module } from "sluice-gateway/module";
import networks from "./networks/index.ts";

export default {
  services: [networks],
  demo: async () => (await import("./demo/demo.ts")).demo,
} satisfies Module;
