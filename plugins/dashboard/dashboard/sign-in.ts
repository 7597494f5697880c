import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { capabilities } from "sluice-gateway/services";
import { isObject } from "sluice-gateway/internal/toolkit";
import { sendJson, sendRefusal } from "./answer.ts";
import type { SignInBy } from "./attempts.ts";
import type { OidcSignIn } from "./oidc/routes.ts";
import type { DashboardDeps } from "./deps.ts";
import { stored } from "./route.ts";
import { mayGrant } from "./wanted-key.ts";
import { addressOf } from "./request-address.ts";
import { maySignIn, type Sessions, type Viewer } from "./session.ts";

const noRight = "the key needs platform:admin or workspace:admin";

export function signInRoutes(
  api: FastifyInstance,
  deps: DashboardDeps,
  sessions: Sessions,
  oidc: OidcSignIn | undefined,
): void {
  const limited = async (
    request: FastifyRequest,
    reply: FastifyReply,
    by: SignInBy,
    work: () => Promise<FastifyReply>,
  ): Promise<FastifyReply> => {
    const waitSeconds = await deps.attempts.limit(request, by);
    if (waitSeconds === undefined) return work();
    const headers = ["retry-after", String(waitSeconds)];
    const message = "too many attempts to sign in";
    return sendRefusal(reply, "GATEWAY_RATE_LIMITED", { message, headers });
  };
  api.post("/session", (request, reply) =>
    limited(request, reply, "key", () =>
      stored(deps, reply, () => signIn({ deps, sessions, oidc }, request, reply)),
    ),
  );
  if (oidc !== undefined) {
    api.post("/session/oidc", (request, reply) =>
      limited(request, reply, "oidc", () => oidc.begin(request, reply, sessions.current(request))),
    );
  }
  api.delete("/session", (request, reply) =>
    stored(deps, reply, async () => {
      // The browser removes the cookie even if the end of the session cannot be stored.
      void reply.header("set-cookie", sessions.noCookie(request));
      await sessions.end(sessions.current(request));
      return reply.code(204).send();
    }),
  );
  // Every page requests this when it opens. Not being signed in is not an error.
  api.get("/session", (request, reply) =>
    stored(deps, reply, async () => {
      const viewer = await sessions.viewer(request);
      return sendJson(
        reply,
        200,
        viewer === undefined ? signedOutJson(deps) : sessionJson(deps, viewer),
      );
    }),
  );
}

interface SignInDeps {
  readonly deps: DashboardDeps;
  readonly sessions: Sessions;
  readonly oidc: OidcSignIn | undefined;
}

async function signIn(
  { deps: { accounts, attempts, log }, sessions, oidc }: SignInDeps,
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
    const { reason } = principal;
    const code = "GATEWAY_UNAUTHORIZED";
    attempts.refused(request, { by: "key", code, facts: { reason } });
    return sendRefusal(reply, code, { message: reason });
  }
  const { key } = principal;
  if (!maySignIn(key.capabilities)) {
    const code = "GATEWAY_PERMISSION_DENIED";
    attempts.refused(request, { by: "key", code, facts: { key: key.id } });
    return sendRefusal(reply, code, { message: noRight });
  }
  // The browser loses the old session, so the user could not end it later.
  await sessions.end(sessions.current(request));
  log.info({ address: addressOf(request), key: key.id }, "dashboard: signed in");
  const cookie = sessions.begin({ key: key.id }, request, request.headers.origin);
  void reply.header("set-cookie", cookie);
  // A sign-in at the provider that is still in progress would not end this new session.
  oidc?.cancel(request, reply);
  return sendJson(reply, 200, { key_id: key.id });
}

function signedOutJson({ oidc }: DashboardDeps): object {
  return { signed_in: false, ...(oidc !== undefined && { oidc: { name: oidc.options.name } }) };
}

function sessionJson(
  deps: DashboardDeps,
  { by, workspace, only, mayChange, expiresAt }: Viewer,
): object {
  const granted = mayChange ? capabilities.filter((each) => mayGrant(only, [each])) : [];
  return {
    signed_in: true,
    ...("key" in by
      ? { key_id: by.key.id, key_name: by.key.name }
      : { subject: by.user.subject, email: by.user.email, role: by.user.role }),
    workspace: workspace && { id: workspace.id, name: workspace.name },
    scope: only === undefined ? "platform" : "workspace",
    may_change: mayChange,
    capabilities: granted,
    environment: deps.environment,
    version: deps.version,
    expires_at: new Date(expiresAt).toISOString(),
  };
}
