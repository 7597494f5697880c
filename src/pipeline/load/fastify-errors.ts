/** Errors of Fastify and its plugins, answered in the canonical envelope: what they say stays inside. */
import { randomUUID } from "node:crypto";
import { isObject } from "../../is-object.ts";
import type { FastifyReply } from "fastify";
import { refuse, type GatewayCode } from "../../errors.ts";
import type { Log } from "../../plugin.ts";

const codes: Readonly<Record<number, GatewayCode>> = {
  401: "GATEWAY_UNAUTHORIZED",
  403: "GATEWAY_PERMISSION_DENIED",
  404: "GATEWAY_NOT_FOUND",
  409: "GATEWAY_CONFLICT",
  429: "GATEWAY_RATE_LIMITED",
  502: "GATEWAY_SERVICE_UNAVAILABLE",
  503: "GATEWAY_SERVICE_UNAVAILABLE",
  504: "GATEWAY_SERVICE_UNAVAILABLE",
};

/**
 * Answers with the code that fits the status which `error` asks for; headers that a plugin has set are kept. What is
 * not the client's fault is logged, under the request's id: no step has run that would.
 */
export function answerFastifyError(error: unknown, reply: FastifyReply, log: Log): void {
  const wanted = statusOf(error);
  const isClients = wanted >= 400 && wanted < 500;
  const code = codes[wanted] ?? (isClients ? "GATEWAY_INVALID_PARAMS" : "GATEWAY_INTERNAL_ERROR");
  const { status, headers = [], body } = refuse(code, isClients ? { status: wanted } : {});
  for (let i = 0; i + 1 < headers.length; i += 2) {
    const [name = "", value = ""] = headers.slice(i, i + 2);
    // `Retry-After` of a plugin knows better than the catalogue.
    if (name === "content-type" || !reply.hasHeader(name)) void reply.header(name, value);
  }
  const requestId = randomUUID();
  if (!isClients) log.error({ err: error, requestId, status }, "a Fastify plugin failed");
  void reply.header("x-request-id", requestId).code(status).send(body);
}

function statusOf(error: unknown): number {
  return isObject(error) && "statusCode" in error ? Number(error["statusCode"]) : 500;
}
