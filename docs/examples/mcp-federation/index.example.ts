/** Nothing listens on this port: a server that cannot be reached only lacks its own tools. */
import type { PluginExample } from "sluice-gateway/testing";

const away = { url: "http://127.0.0.1:9/mcp", tools: { echo: 5 } };
export default { options: { servers: { away } } } satisfies PluginExample;
