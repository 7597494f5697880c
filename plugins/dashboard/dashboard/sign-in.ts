/** Routes to sign in, to sign out, and to read the session. */
import { RateLimiterRes } from "rate-limiter-flexible";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { addressKey } from "sluice-gateway/http";
import type { AttemptLimiter } from "sluice-gateway/limits";
import { capabilities } from "sluice-gateway/services";
import { isObject } from "sluice-gateway/toolkit";
import { sendJson, sendRefusal } from "./answer.ts";
import { stored } from "./route.ts";
import type { DashboardParts } from "./parts.ts";
import { mayGrant } from "./wanted-key.ts";
import { addressOf, maySignIn, type Sessions, type Viewer } from "./session.ts";

const noRight = "the key needs platform:admin or workspace:admin";

export function signInRoutes(
  api: FastifyInstance,
  parts: DashboardParts,
  sessions: Sessions,
): void {
  api.post("/session", async (request, reply) => {
    const waitSeconds = await tooMany(parts.attempts, addressOf(request));
    if (waitSeconds !== undefined) {
      const headers = ["retry-after", String(waitSeconds)];
      const message = "too many attempts to sign in";
      return sendRefusal(reply, "GATEWAY_RATE_LIMITED", { message, headers });
    }
    return stored(parts, reply, () => signIn(parts, sessions, request, reply));
  });
  api.delete("/session", (request, reply) =>
    stored(parts, reply, async () => {
      // The browser removes the cookie even if the end of the session cannot be stored.
      void reply.header("set-cookie", sessions.noCookie(request));
      await sessions.end(request);
      return reply.code(204).send();
    }),
  );
  // Every page requests this when it opens. Not being signed in is not an error.
  api.get("/session", (request, reply) =>
    stored(parts, reply, async () => {
      const viewer = await sessions.viewer(request);
      return sendJson(
        reply,
        200,
        viewer === undefined ? { signed_in: false } : sessionJson(parts, viewer),
      );
    }),
  );
}

/** Returns the seconds to wait. Undefined if an attempt is allowed. */
async function tooMany(limiter: AttemptLimiter, address: string): Promise<number | undefined> {
  try {
    await limiter.consume(addressKey(address));
    return undefined;
  } catch (rejected) {
    if (!(rejected instanceof RateLimiterRes)) throw rejected;
    return Math.ceil(rejected.msBeforeNext / 1000);
  }
}

async function signIn(
  { accounts, log }: DashboardParts,
  sessions: Sessions,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const { body } = request;
  if (!isObject(body) || typeof body["key"] !== "string" || Object.keys(body).length !== 1) {
    return sendRefusal(reply, "GATEWAY_INVALID_PARAMS", { message: "expected the body { key }" });
  }
  const principal = await accounts.identify(`Bearer ${body["key"]}`, addressOf(request));
  if (principal.kind === "unavailable") return sendRefusal(reply, "GATEWAY_SERVICE_UNAVAILABLE");
  if (principal.kind === "anonymous") {
    log.warn(
      { address: addressOf(request), reason: principal.reason },
      "dashboard: sign-in refused",
    );
    return sendRefusal(reply, "GATEWAY_UNAUTHORIZED", { message: principal.reason });
  }
  const { key } = principal;
  if (!maySignIn(key.capabilities)) {
    log.warn({ address: addressOf(request), key: key.id }, "dashboard: sign-in refused");
    return sendRefusal(reply, "GATEWAY_PERMISSION_DENIED", { message: noRight });
  }
  log.info({ address: addressOf(request), key: key.id }, "dashboard: signed in");
  return sendJson(reply.header("set-cookie", sessions.begin(key.id, request)), 200, {
    key_id: key.id,
  });
}

function sessionJson(parts: DashboardParts, { key, workspace, only, expiresAt }: Viewer): object {
  return {
    signed_in: true,
    key_id: key.id,
    key_name: key.name,
    workspace: { id: workspace.id, name: workspace.name },
    scope: only === undefined ? "platform" : "workspace",
    capabilities: capabilities.filter((each) => mayGrant(only, [each])),
    environment: parts.environment,
    version: parts.version,
    expires_at: new Date(expiresAt).toISOString(),
  };
}
