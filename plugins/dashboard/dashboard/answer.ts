import type { FastifyInstance, FastifyReply } from "fastify";
import { refuse, type GatewayCode, type Log } from "sluice-gateway/plugin";

export function sendJson(reply: FastifyReply, status: number, body: unknown): FastifyReply {
  return reply.code(status).type("application/json").send(JSON.stringify(body));
}

export function sendRefusal(
  reply: FastifyReply,
  code: GatewayCode,
  options: Parameters<typeof refuse>[1] = {},
): FastifyReply {
  const { status, headers = [], body } = refuse(code, options);
  for (let at = 0; at + 1 < headers.length; at += 2) {
    void reply.header(headers[at] ?? "", headers[at + 1] ?? "");
  }
  return reply.code(status).send(body);
}

export function sendInvalidQuery(reply: FastifyReply, expected: string): FastifyReply {
  const message = `invalid query, expected ${expected}`;
  return sendRefusal(reply, "GATEWAY_INVALID_PARAMS", { message });
}

/** Answers every error in the canonical envelope, without its internal cause. */
export function answerErrors(app: FastifyInstance, log: Log): void {
  app.setErrorHandler((error: Error & { statusCode?: number }, request, reply) => {
    const status = error.statusCode ?? 500;
    if (status < 500) return sendRefusal(reply, "GATEWAY_INVALID_PARAMS", { status });
    // A query may contain secrets, such as the code of a sign-in.
    const path = request.url.split("?", 1)[0];
    log.error({ err: error, path }, "an admin request failed");
    return sendRefusal(reply, "GATEWAY_INTERNAL_ERROR");
  });
}
