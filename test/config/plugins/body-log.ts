import { defineStep } from "sluice-gateway/plugin";
import "./slots.ts";

export default defineStep({
  name: "body-log",
  description: "Needs the body's tenant at the end.",
  needs: { bodyTenant: "settled" },
  start: () => ({}),
});
