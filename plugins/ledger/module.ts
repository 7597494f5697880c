import type { Module } from "../../src/module.ts";
import ledger from "./ledger/index.ts";

export default { services: [ledger] } satisfies Module;
