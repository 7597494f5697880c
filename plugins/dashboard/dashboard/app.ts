/** The dashboard's page and its JSON API, as a Fastify instance. All paths start with /dashboard. */
import { randomUUID } from "node:crypto";
import { fastify, type FastifyInstance } from "fastify";
import { parseJson, isObject } from "sluice-gateway/internal/toolkit";
import { answerErrors, sendJson, sendRefusal } from "./answer.ts";
import { protectAnswers, refuseOtherSites } from "./guard.ts";
import { health } from "./health.ts";
import { historyRoutes } from "./history/view.ts";
import { keyRoutes } from "./key-routes.ts";
import { liveRoutes } from "./live-routes.ts";
import { servePages } from "./pages.ts";
import { pipelineRoutes } from "./pipeline-routes.ts";
import { playgroundRoutes } from "./playground.ts";
import type { DashboardDeps } from "./deps.ts";
import { signedInRoutes, type AddRoute } from "./route.ts";
import type { OidcSignIn } from "./oidc/routes.ts";
import { hasRole } from "./oidc/user.ts";
import { createSessions, type Sessions } from "./session.ts";
import { signInRoutes } from "./sign-in.ts";
import { spendRoutes } from "./spend.ts";
import { workspaceRoutes } from "./workspace-routes.ts";
import { queryOf } from "./input.ts";

const bodyBytes = 16 * 1024;

export async function openApp(deps: DashboardDeps): Promise<FastifyInstance> {
  const app = fastify({ logger: false, genReqId: () => randomUUID() });
  answerErrors(app, deps.log);
  await app.register(async (scope) => pages(scope, deps), { prefix: "/dashboard" });
  await app.ready();
  return app;
}

async function pages(scope: FastifyInstance, deps: DashboardDeps): Promise<void> {
  readJson(scope);
  protectAnswers(scope);
  refuseUnknown(scope);
  servePages(scope);
  const { oidc, environment } = deps;
  const sessions = createSessions(
    deps,
    (user) => oidc !== undefined && hasRole(user, oidc.options, environment),
  );
  const signIn = await openOidc(deps);
  signIn?.addCallback(scope, sessions);
  await scope.register(async (api) => apiRoutes(api, deps, sessions, signIn), { prefix: "/api" });
}

/** Loads the package openid-client only if a provider is configured. */
async function openOidc(deps: DashboardDeps): Promise<OidcSignIn | undefined> {
  if (deps.oidc === undefined) return undefined;
  const { openOidcSignIn } = await import("./oidc/routes.ts");
  return openOidcSignIn(deps, deps.oidc);
}

function apiRoutes(
  api: FastifyInstance,
  deps: DashboardDeps,
  sessions: Sessions,
  oidc: OidcSignIn | undefined,
): void {
  refuseOtherSites(api);
  const add = signedInRoutes(api, deps, sessions);
  signInRoutes(api, deps, sessions, oidc);
  keyRoutes(add, deps);
  workspaceRoutes(add, deps);
  spendRoutes(add, deps);
  historyRoutes(add, deps);
  playgroundRoutes(add, deps);
  liveRoutes(add, deps);
  pipelineRoutes(add, deps);
  add(
    "GET",
    "health",
    async (_viewer, _, reply) => sendJson(reply, 200, await health(deps)),
    "platform",
  );
  explainRoute(add, deps);
}

function refuseUnknown(scope: FastifyInstance): void {
  const known: { readonly path: RegExp; readonly methods: readonly string[] }[] = [];
  scope.addHook("onRoute", ({ url, method }) => {
    const path = new RegExp(`^${url.replaceAll(".", "\\.").replaceAll(/:\w+/g, "[^/]+")}$`);
    known.push({ path, methods: [method].flat() });
  });
  scope.setNotFoundHandler((request, reply) => {
    const path = request.url.split("?", 1)[0] ?? "";
    const routes = known.filter((route) => route.path.test(path));
    if (routes.length === 0) return sendRefusal(reply, "GATEWAY_NOT_FOUND");
    const allow = [...new Set(routes.flatMap(({ methods }) => methods))].toSorted().join(", ");
    return sendRefusal(reply, "GATEWAY_INVALID_PARAMS", {
      status: 405,
      message: "method not allowed",
      headers: ["allow", allow],
    });
  });
}

/** Other bodies are refused before they are read. */
function readJson(scope: FastifyInstance): void {
  scope.removeAllContentTypeParsers();
  scope.addContentTypeParser(
    "application/json",
    { parseAs: "string", bodyLimit: bodyBytes },
    (_, body, done) => {
      try {
        done(null, parseJson(String(body)));
      } catch {
        done(Object.assign(new Error("the body is not JSON"), { statusCode: 400 }));
      }
    },
  );
}

/** The administrator of a workspace gets only the requests of its keys, without the names of gateways and backends. */
function explainRoute(add: AddRoute, { gateway }: DashboardDeps): void {
  add("GET", "explain", async ({ only }, request, reply) => {
    const id = queryOf(request.url, ["id"])?.["id"];
    if (id === undefined) {
      return sendRefusal(reply, "GATEWAY_INVALID_PARAMS", {
        message: "missing query parameter `id`",
      });
    }
    const { exchanges, missing } = await gateway.running().explainEverywhere(id);
    // Clients choose the ids of their requests, so requests of different workspaces may have the same id.
    const shown = only === undefined ? exchanges : exchanges.flatMap((each) => ownOf(each, only));
    if (shown.length === 0) return sendRefusal(reply, "GATEWAY_NOT_FOUND");
    return sendJson(reply, 200, {
      exchanges: shown,
      ...(only === undefined && { missing }),
    });
  });
}

function ownOf(exchange: object, workspaceId: string): object[] {
  if (!isObject(exchange) || exchange["workspace_id"] !== workspaceId) return [];
  const { replica: _, upstream_failure: __, ...shown } = exchange;
  return [shown];
}
