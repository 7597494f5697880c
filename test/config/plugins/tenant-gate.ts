import { defineStep } from "sluice-gateway/plugin";
import "./slots.ts";

export default defineStep({
  name: "tenant-gate",
  description: "Needs the tenant on the way down.",
  needs: { tenant: "requestHeaders" },
  start: () => ({}),
});
