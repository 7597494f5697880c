import type { Module } from "sluice-gateway/internal/module";
import evmNode from "./evm-node/index.ts";

export default { services: [evmNode] } satisfies Module;
