import { defineStep } from "sluice-gateway/plugin";
import "./slots.ts";

export default defineStep({
  name: "tenant",
  description: "Sets the tenant.",
  provides: { tenant: "requestHeaders" },
  start: () => ({}),
});
