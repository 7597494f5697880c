import { defineStep } from "sluice-gateway/plugin";
import type { Charge } from "sluice-gateway/services";

export default defineStep({
  name: "unmetered",
  description: "Lets requests through without a charge, in place of meter.",
  options: { type: "object", properties: {}, additionalProperties: false },
  permissions: { body: "none" },
  provides: { charge: "requestHeaders" },
  start: () => ({
    requestHeaders(x) {
      x.set("charge", freeCharge());
    },
  }),
});

function freeCharge(): Charge {
  let usedMilliCu: number | undefined;
  return {
    reserve: () => undefined,
    // The amount is shown in answers, but nobody pays it here.
    settle: (lines) => (usedMilliCu = lines.reduce((sum, line) => sum + line.costMilliCu, 0)),
    open: () => ({
      kind: "unavailable",
      reason: "requests of several calls are not served unmetered",
    }),
    get usedMilliCu() {
      return usedMilliCu;
    },
  };
}
