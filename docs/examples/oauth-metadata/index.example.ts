/** An address and a provider, because both options are required. */
import type { PluginExample } from "sluice-gateway/testing";

export default {
  options: { resource: "https://gateway.test/mcp", issuer: "https://id.acme.test" },
} satisfies PluginExample;
