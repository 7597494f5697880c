import { defineStep } from "sluice-gateway/plugin";
import "./slots.ts";

export default defineStep({
  name: "tenant-log",
  description: "Needs the tenant at the end.",
  needs: { tenant: "settled" },
  start: () => ({}),
});
