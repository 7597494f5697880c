/** Nothing listens on this port: the contract suite needs no node. */
import type { PluginExample } from "sluice-gateway/testing";
import type { EvmNode } from "./index.ts";

export default {
  options: { url: "http://127.0.0.1:9" },
  use: (node: EvmNode) => node.call("eth_blockNumber"),
} satisfies PluginExample;
