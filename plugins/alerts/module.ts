import type { Module } from "sluice-gateway/internal/module";
import alerts from "./alerts/index.ts";

export default { services: [alerts], alwaysOn: ["alerts"] } satisfies Module;
