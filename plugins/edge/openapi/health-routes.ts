import type { DocumentedRefusal, DocumentedRoute, Operation } from "sluice-gateway/plugin";

const healthBody = {
  type: "object",
  properties: {
    status: { enum: ["ok", "unavailable"] },
    checks: {
      description: "State of each check: `ok`, or what is wrong.",
      type: "object",
      additionalProperties: { type: "string" },
    },
    backends: {
      description:
        "State of each backend, by the name of its check. Only in the answer of /readyz.",
      type: "object",
      additionalProperties: {
        type: "object",
        properties: {
          state: { enum: ["ok", "unusable"] },
          since: {
            description: "When the state was first observed.",
            type: "string",
            format: "date-time",
          },
          cause: { description: "Why the backend cannot be used.", type: "string" },
        },
        required: ["state", "since"],
        additionalProperties: false,
      },
    },
  },
  required: ["status", "checks"],
  additionalProperties: false,
  examples: [{ status: "ok", checks: { accounts: "ok", journal: "ok", "upstream ledger": "ok" } }],
};
const healthContent = { "application/json": healthBody };

const malformed: DocumentedRefusal = {
  code: "GATEWAY_INVALID_PARAMS",
  description: "The request is not valid HTTP.",
};

function health(
  path: string,
  summary: string,
  answers: NonNullable<Operation["answers"]>,
): DocumentedRoute {
  return {
    path,
    websocket: false,
    surface: {
      name: "health",
      description: "Reports whether the gateway is up and ready to serve.",
    },
    operations: [{ method: "GET", parts: [{ summary, answers, refusals: [malformed] }] }],
  };
}

/** The routes that the listener of the gateway answers itself (src/http/dispatch.ts). */
export const healthRoutes: readonly DocumentedRoute[] = [
  health("/healthz", "Check whether the process is up", {
    200: { description: "The process is up.", content: healthContent },
  }),
  health("/readyz", "Check whether the gateway can serve", {
    200: { description: "The gateway can serve.", content: healthContent },
    503: {
      description: "A store or every backend is down, or the gateway is draining.",
      content: healthContent,
    },
  }),
];
