import { defineStep } from "sluice-gateway/plugin";
import "./slots.ts";

export default defineStep({
  name: "signature-log",
  description: "Uses the signature if there is one.",
  wants: { signature: "responseHeaders" },
  start: () => ({}),
});
