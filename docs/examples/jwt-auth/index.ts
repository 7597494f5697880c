/** Authenticates callers by the access tokens of an OpenID provider, in place of API keys. */
import { defineStep, refuse, type Exchange, type Reply } from "sluice-gateway/plugin";
import type { Anonymous } from "sluice-gateway/services";
import { createCallers, type TokenOptions } from "./callers.ts";
import { plans } from "./principal.ts";

interface Options extends TokenOptions {
  readonly resource?: string;
}

const text = { type: "string", minLength: 1 };
const url = { ...text, pattern: "^https?://[^/?#]+[^#]*$" };
const count = { type: "integer", minimum: 1 };
const claim = (name: string, description: string) => ({ ...text, default: name, description });

export default defineStep<Options>({
  name: "jwt-auth",
  contract: "^1.2",
  description: "Authenticates callers by OIDC access tokens.",
  options: {
    type: "object",
    properties: {
      issuer: { ...text, description: "The value of `iss`." },
      audience: { ...text, description: "The value of `aud`." },
      jwks: { ...url, description: "Address of the provider's keys." },
      workspaceClaim: claim("org_id", "Claim with the id of the workspace."),
      scopeClaim: claim("scope", "Claim with the capabilities: a text or an array."),
      planClaim: claim("plan", "Claim with a plan, in place of the plan of the workspace."),
      plan: { enum: plans, description: "Plan of workspaces that the gateway does not know." },
      rpsClaim: claim("rps", "Claim with the requests per second, up to those of the plan."),
      rps: { ...count, description: "Requests per second without the claim." },
      dailyMilliCuClaim: claim("daily_milli_cu", "Claim with the credit in 24 hours."),
      dailyMilliCu: { ...count, description: "Credit in 24 hours without the claim." },
      resource: { ...url, description: "Address of /mcp. A 401 there names its metadata." },
    },
    required: ["issuer", "audience", "jwks"],
    additionalProperties: false,
  },
  provides: { principal: "requestHeaders" },
  uses: ["accounts"],
  permissions: { hosts: ["*"], body: "none" },
  operation: () => ({
    refusals: [
      { code: "GATEWAY_SERVICE_UNAVAILABLE", description: "The token cannot be checked now." },
    ],
  }),
  start(options, host) {
    const callerOf = createCallers(options, host);
    const unavailable = refuse("GATEWAY_SERVICE_UNAVAILABLE");
    const metadata = options.resource === undefined ? undefined : metadataOf(options.resource);

    async function identify(x: Exchange, token: string): Promise<Reply | undefined> {
      const principal = await callerOf(token);
      if (principal === undefined) return anonymous(x, "unauthorized");
      const { key, rps } = principal;
      const isOperator = key.capabilities.has("platform:admin");
      x.note("caller", { id: key.id, group: key.workspaceId, burst: 2 * rps, isOperator });
      x.set("principal", principal);
      return undefined;
    }

    return {
      requestHeaders(x) {
        const { authorization } = x.request.headers;
        if (authorization === undefined) return anonymous(x, "missing authorization header");
        const token = /^Bearer ([\w-]+\.[\w-]+\.[\w-]*)$/.exec(authorization)?.[1];
        if (token === undefined) return anonymous(x, "invalid authorization format");
        return identify(x, token).catch((error: unknown) => {
          host.log.warn({ err: error }, "a token could not be checked");
          return unavailable;
        });
      },
      responseHeaders(x, head) {
        if (metadata === undefined || head.status !== 401 || x.route.surface !== "mcp") return;
        // RFC 6750 section 3.1: without a token there is no error code.
        const error =
          x.request.headers.authorization === undefined ? "" : 'error="invalid_token", ';
        head.set("www-authenticate", `Bearer ${error}resource_metadata="${metadata}"`);
      },
    };
  },
});

/** The refusal is the task of `authorize`, so that public routes work without a token. */
function anonymous(x: Exchange, reason: Anonymous["reason"]): undefined {
  x.set("principal", { kind: "anonymous", reason });
}

/** Returns the address of the metadata of a resource (RFC 9728 section 3.1). */
function metadataOf(resource: string): string {
  const { origin, pathname, search } = new URL(resource);
  const path = pathname === "/" ? "" : pathname;
  return `${origin}/.well-known/oauth-protected-resource${path}${search}`;
}
