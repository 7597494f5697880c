import type { Module } from "sluice-gateway/module";
import toolCatalogue from "./tool-catalogue/index.ts";

export default {
  services: [toolCatalogue],
  companions: { "tool-catalogue": "tools" },
} satisfies Module;
