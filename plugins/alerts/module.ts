import type { Module } from "sluice-gateway/module";
import alerts from "./alerts/index.ts";

export default { services: [alerts], alwaysOn: ["alerts"] } satisfies Module;
