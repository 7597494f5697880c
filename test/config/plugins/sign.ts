import { defineStep } from "sluice-gateway/plugin";
import "./slots.ts";

export default defineStep({
  name: "sign",
  description: "Signs the answer.",
  provides: { signature: "responseHeaders" },
  start: () => ({}),
});
