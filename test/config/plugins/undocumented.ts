import { defineSurface } from "../../../src/plugin.ts";

export default defineSurface({
  name: "undocumented",
  description: "Cannot be documented.",
  operation: () => {
    throw new Error("no schema");
  },
  start: () => ({ answer: () => ({ status: 204 }) }),
});
