/** A third party's step, in plain JavaScript: it counts requests and adds a header field to every answer. */
import { defineStep, refuse } from "sluice-gateway/plugin";

export default defineStep({
  name: "stamp",
  description: "Stamps answers with a text.",
  options: {
    type: "object",
    additionalProperties: false,
    properties: { text: { type: "string", minLength: 1, default: "sealed" } },
  },
  provides: { stamp: "requestHeaders" },
  start: ({ text }) => ({
    requestHeaders(x) {
      x.set("stamp", text);
      return x.request.path === "/closed" ? refuse("GATEWAY_NOT_FOUND") : undefined;
    },
    responseHeaders(x, head) {
      head.set("x-stamp", text);
    },
  }),
});
