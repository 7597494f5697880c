import type { Module } from "sluice-gateway/module";
import dashboard from "./dashboard/index.ts";

export default { services: [dashboard], alwaysOn: ["dashboard"] } satisfies Module;
