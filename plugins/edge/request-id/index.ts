import { randomUUID } from "node:crypto";
import { isRequestId } from "sluice-gateway/internal/http";
import { defineStep } from "sluice-gateway/plugin";

export default defineStep({
  name: "request-id",
  description:
    "Keeps the X-Request-Id of the client or generates one, and sends it with every response.",
  provides: { requestId: "requestHeaders" },
  operation: () => ({
    headers: {
      type: "object",
      properties: {
        "x-request-id": {
          description:
            "Id of the request in the response, in logs and in usage records. A value of any other form is replaced.",
          type: "string",
          pattern: "^[!-~]{1,128}$",
        },
      },
    },
    answerHeaders: {
      "X-Request-Id": {
        description: "Id of the request: the client's, or a new one.",
        schema: { type: "string" },
      },
    },
  }),
  permissions: { body: "none" },
  start: () => ({
    requestHeaders(x) {
      const sent = x.request.headers["x-request-id"];
      const id = isRequestId(sent) ? sent : randomUUID();
      x.set("requestId", id);
      x.note("requestId", id);
    },
    responseHeaders(x, head) {
      head.set("x-request-id", x.get("requestId"));
    },
  }),
});
