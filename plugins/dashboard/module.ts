import type { Module } from "../../src/module.ts";
import dashboard from "./dashboard/index.ts";

export default { services: [dashboard], alwaysOn: ["dashboard"] } satisfies Module;
