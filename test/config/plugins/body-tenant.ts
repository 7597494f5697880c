import { defineStep } from "sluice-gateway/plugin";
import "./slots.ts";

export default defineStep({
  name: "body-tenant",
  description: "Reads the tenant from the body.",
  provides: { bodyTenant: "requestBody" },
  start: () => ({}),
});
