import type { Module } from "../../src/module.ts";
import toolCatalogue from "./tool-catalogue/index.ts";

export default {
  services: [toolCatalogue],
  companions: { "tool-catalogue": "tools" },
} satisfies Module;
