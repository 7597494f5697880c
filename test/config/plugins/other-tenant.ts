import { defineStep } from "sluice-gateway/plugin";
import "./slots.ts";

export default defineStep({
  name: "other-tenant",
  description: "Sets the tenant, too.",
  provides: { tenant: "requestHeaders" },
  start: () => ({}),
});
