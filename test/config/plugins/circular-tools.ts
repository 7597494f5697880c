/** A plugin of kind `tools` that uses the catalogue, which starts after all tools. */
import { defineTools } from "sluice-gateway/plugin";

export default defineTools({
  name: "circular-tools",
  description: "Uses the catalogue of tools.",
  uses: ["tool-catalogue"],
  start: () => ({ tools: [] }),
});
