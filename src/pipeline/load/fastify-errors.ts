/** Answers errors of Fastify and its plugins in the canonical envelope, without their messages. */
import { randomUUID } from "node:crypto";
import { isObject } from "../../base/is-object.ts";
import type { FastifyReply } from "fastify";
import { refuse, type GatewayCode } from "../../base/errors.ts";
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
 * Answers with the code that matches the status of `error`, and keeps the headers that a plugin has set. An error that
 * is not the client's fault is logged here with the request's id, because no step runs that would log it.
 */
export function answerFastifyError(error: unknown, reply: FastifyReply, log: Log): void {
  const wanted = statusOf(error);
  const isClients = wanted >= 400 && wanted < 500;
  const code = codes[wanted] ?? (isClients ? "GATEWAY_INVALID_PARAMS" : "GATEWAY_INTERNAL_ERROR");
  const { status, headers = [], body } = refuse(code, isClients ? { status: wanted } : {});
  for (let i = 0; i + 1 < headers.length; i += 2) {
    const [name = "", value = ""] = headers.slice(i, i + 2);
    // A plugin's own `Retry-After` is more precise than the one of the catalogue.
    if (name === "content-type" || !reply.hasHeader(name)) void reply.header(name, value);
  }
  const requestId = randomUUID();
  if (!isClients) log.error({ err: error, requestId, status }, "a Fastify plugin failed");
  void reply.header("x-request-id", requestId).code(status).send(body);
}

function statusOf(error: unknown): number {
  return isObject(error) && "statusCode" in error ? Number(error["statusCode"]) : 500;
}
