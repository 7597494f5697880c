/**
 * Sign-in at an OpenID provider. The page requests the address at the provider and opens it. The provider sends the
 * browser back to /dashboard/oidc/callback, where the session starts.
 */
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import type { GatewayCode } from "sluice-gateway/plugin";
import { StoreError } from "sluice-gateway/internal/store";
import { sendJson, sendRefusal } from "../answer.ts";
import type { DashboardDeps, OidcAccess } from "../deps.ts";
import { addressOf } from "../request-address.ts";
import type { SessionRef, Sessions } from "../session.ts";
import { createFlows, type Flow, type Flows } from "./flow.ts";
import { openProvider, ProviderError, type Provider } from "./provider.ts";
import { sendRefusalPage } from "./refusal-page.ts";
import { providerId, userOf, type OidcOptions } from "./user.ts";

interface OidcDeps {
  readonly dashboard: DashboardDeps;
  readonly options: OidcOptions;
  readonly provider: Provider;
  readonly flows: Flows;
}

export interface OidcSignIn {
  /**
   * `replaces`: the session of the browser, which ends when the new one starts. The last request of the sign-in does
   * not have its cookie, because it comes from another site.
   */
  begin(
    request: FastifyRequest,
    reply: FastifyReply,
    replaces: SessionRef | undefined,
  ): Promise<FastifyReply>;
  cancel(request: FastifyRequest, reply: FastifyReply): void;
  addCallback(scope: FastifyInstance, sessions: Sessions): void;
}

export function openOidcSignIn(
  dashboard: DashboardDeps,
  { options, send }: OidcAccess,
): OidcSignIn {
  const provider = openProvider({ options, send, clock: dashboard.clock });
  const deps: OidcDeps = { dashboard, options, provider, flows: createFlows(dashboard) };
  return {
    begin: (request, reply, replaces) => begin(deps, request, reply, replaces),
    cancel: (request, reply) =>
      void reply.header("set-cookie", deps.flows.noCookie(request, request.headers.origin)),
    addCallback: (scope, sessions) => {
      // HEAD would use up the sign-in.
      scope.get("/oidc/callback", { exposeHeadRoute: false }, (request, reply) =>
        callback(deps, sessions, request, reply),
      );
    },
  };
}

async function begin(
  { dashboard: { environment, log }, options, provider, flows }: OidcDeps,
  request: FastifyRequest,
  reply: FastifyReply,
  replaces: SessionRef | undefined,
): Promise<FastifyReply> {
  // The origin has been compared with the Host header.
  const { origin = "" } = request.headers;
  const wanted = { origin, provider: providerId(options, environment) };
  const { flow, cookie } = flows.begin(request, { ...wanted, ...(replaces && { replaces }) });
  try {
    const url = await provider.signInUrl(
      flows.secretsOf(flow),
      `${origin}/dashboard/oidc/callback`,
    );
    return await sendJson(reply.header("set-cookie", cookie), 200, { url });
  } catch (error) {
    if (!(error instanceof ProviderError)) throw error;
    log.warn({ reason: error.message }, "dashboard: the OpenID provider cannot be used");
    return sendRefusal(reply, "GATEWAY_SERVICE_UNAVAILABLE", { message: awayMessage(options) });
  }
}

function awayMessage({ name }: OidcOptions): string {
  return `${name} cannot be reached or gives no valid answer; try again later, or sign in with a key`;
}

interface Refused {
  readonly code: GatewayCode;
  /** For the user. */
  readonly message: string;
  /** For the log. */
  readonly reason?: string;
}

async function callback(
  deps: OidcDeps,
  sessions: Sessions,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const { log, attempts } = deps.dashboard;
  const end = await finish(deps, sessions, request, reply).catch((error: unknown): Refused => {
    if (!(error instanceof StoreError)) throw error;
    log.error({ err: error }, "dashboard: cannot use the store");
    return { code: "GATEWAY_SERVICE_UNAVAILABLE", message: "the gateway cannot use its store" };
  });
  if (typeof end !== "string") {
    // Any page can make a browser request this address without a sign-in, so these lines in the log are limited.
    const waitSeconds = end === notOpen ? await attempts.limitStray(request) : undefined;
    if (waitSeconds !== undefined) {
      void reply.header("retry-after", String(waitSeconds));
      return sendRefusalPage(reply, request.id, "GATEWAY_RATE_LIMITED", tooMany);
    }
    const { code, message, reason = message } = end;
    attempts.refused(request, { by: "oidc", code, facts: { reason } });
    return sendRefusalPage(reply, request.id, code, message);
  }
  // The browser does not send a `Strict` cookie with this redirect, which comes from another site. This is harmless,
  // because the page itself does not need a session. Its own requests send the cookie.
  return reply.header("set-cookie", end).code(303).header("location", "/dashboard").send();
}

/** Resolves to the cookie of the new session. */
async function finish(
  deps: OidcDeps,
  sessions: Sessions,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<string | Refused> {
  const { dashboard, options, flows } = deps;
  const flow = flows.open(request);
  if (flow === undefined || flow.provider !== providerId(options, dashboard.environment))
    return notOpen;
  const returned = new URL(request.url, flow.origin);
  const states = returned.searchParams.getAll("state");
  if (states.length !== 1 || states[0] !== flows.secretsOf(flow).state) return notOpen;
  if (!(await flows.finish(flow))) return notOpen;
  void reply.header("set-cookie", flows.noCookie(request, flow.origin));
  const read = await readUser(deps, returned, flow);
  if (!("user" in read)) return read;
  const { user } = read;
  const { workspaceId, role } = user;
  if (workspaceId !== undefined) {
    const workspace = await dashboard.accounts.admin.findWorkspace(workspaceId);
    if (workspace === undefined) return denied(`the workspace ${workspaceId} does not exist`);
  }
  await sessions.end(flow.replaces);
  dashboard.log.info(
    { address: addressOf(request), user: user.subject, role },
    "dashboard: signed in",
  );
  return sessions.begin({ user }, request, flow.origin);
}

const notOpen: Refused = {
  code: "GATEWAY_INVALID_PARAMS",
  message:
    "this sign-in has expired, has already ended, or was begun in another browser or another tab; sign in again",
};

const tooMany =
  "too many answers of the provider without a sign-in; wait a minute, then sign in again";

function denied(message: string): Refused {
  return { code: "GATEWAY_PERMISSION_DENIED", message };
}

async function readUser(
  { dashboard: { environment }, options, provider, flows }: OidcDeps,
  returned: URL,
  flow: Flow,
): Promise<Refused | Exclude<ReturnType<typeof userOf>, { readonly refused: string }>> {
  try {
    const claims = await provider.claimsOf(returned, flows.secretsOf(flow));
    const read = userOf(claims, options, environment);
    return "refused" in read ? denied(read.refused) : read;
  } catch (error) {
    if (!(error instanceof ProviderError)) throw error;
    return error.isUnavailable
      ? {
          code: "GATEWAY_SERVICE_UNAVAILABLE",
          message: awayMessage(options),
          reason: error.message,
        }
      : {
          code: "GATEWAY_UNAUTHORIZED",
          message: `${options.name} did not confirm the sign-in`,
          reason: error.message,
        };
  }
}
