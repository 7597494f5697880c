/** Nothing listens on this port: a server that cannot be reached has no tools. */
import type { PluginExample } from "sluice-gateway/testing";

const options = { prefix: "acme", url: "http://127.0.0.1:9/mcp", tools: { echo: 5 } };
export default { options } satisfies PluginExample;
