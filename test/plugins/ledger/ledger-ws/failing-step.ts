/** A step that throws at each message of a connection whose upgrade has the header `x-fail`. */
import { defineStep } from "sluice-gateway/plugin";

export default defineStep({
  name: "failing-step",
  description: "Throws at messages.",
  start: () => ({
    message({ request }) {
      if (request.headers["x-fail"] !== undefined) throw new Error("the step of a test fails");
    },
  }),
});
