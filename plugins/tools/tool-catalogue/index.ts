import { defineService } from "sluice-gateway/plugin";
import type { Tools } from "sluice-gateway/services";

export default defineService<Record<string, never>, Tools>({
  name: "tool-catalogue",
  description: "The catalogue of tools, resources and prompts that all tool surfaces share.",
  uses: ["tools"],
  permissions: { deployment: ["seal", "claims"] },
  async start(_, host) {
    const { Catalogue } = await import("./catalogue.ts");
    const catalogue = new Catalogue(host);
    for (const { plugin, hooks, reportInvalid, counts } of host.use("tools")) {
      for (const problem of catalogue.add(hooks, counts, plugin))
        (hooks.onInvalid ?? reportInvalid)(problem);
    }
    return { service: catalogue };
  },
});
