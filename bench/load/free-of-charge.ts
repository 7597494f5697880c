/** A step that replaces `meter` and charges nothing. It shows the cost of a request without metering. */
import { defineStep } from "sluice-gateway/plugin";
import type { Charge } from "sluice-gateway/services";

declare module "sluice-gateway/plugin" {
  interface Slots {
    charge: Charge;
  }
}

const free: Charge = {
  usedMilliCu: undefined,
  reserve: () => undefined,
  open: (reservedMilliCu) => ({
    reservedMilliCu,
    settle() {},
    written: () => Promise.resolve(undefined),
    release() {},
  }),
  settle() {},
};

export default defineStep({
  name: "free",
  description: "Takes the place of meter and charges nothing.",
  provides: { charge: "requestHeaders" },
  start: () => ({ requestHeaders: (x) => x.set("charge", free) }),
});
