/** Nothing listens on this port: the contract suite needs no node. */
import type { PluginExample } from "sluice-gateway/testing";

export default { options: { url: "http://127.0.0.1:9" } } satisfies PluginExample;
