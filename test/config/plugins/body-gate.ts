import { defineStep } from "sluice-gateway/plugin";
import "./slots.ts";

export default defineStep({
  name: "body-gate",
  description: "Needs the body's tenant before there is a body.",
  needs: { bodyTenant: "requestHeaders" },
  start: () => ({}),
});
