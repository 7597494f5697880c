/** A step that needs the body's tenant before the body has been read. */
import { defineStep } from "sluice-gateway/plugin";
import "./slots.ts";

export default defineStep({
  name: "body-gate",
  description: "Needs the body's tenant before there is a body.",
  needs: { bodyTenant: "requestHeaders" },
  start: () => ({}),
});
