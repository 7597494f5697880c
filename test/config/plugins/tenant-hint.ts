import { defineStep } from "sluice-gateway/plugin";
import "./slots.ts";

export default defineStep({
  name: "tenant-hint",
  description: "Uses the tenant if there is one.",
  wants: { tenant: "requestHeaders" },
  start: () => ({}),
});
