/** Authenticates callers by the access tokens of an OpenID provider, in place of API keys. */
import { createRemoteJWKSet, customFetch, jwtVerify, type JWTPayload } from "jose";
import { defineStep } from "sluice-gateway/plugin";
import { capabilities, type KeyPrincipal, type PlanName } from "sluice-gateway/services";
import { BoundedMap } from "sluice-gateway/toolkit";
import { missing, plans, positive, unauthorized } from "./claims.ts";

type Name = "issuer" | "audience" | "jwks" | "workspaceClaim" | "rpsClaim" | "dailyMilliCuClaim";
interface Options extends Readonly<Record<Name, string>> {
  readonly plan: PlanName;
  readonly rps: number;
  readonly dailyMilliCu?: number;
  readonly resource?: string;
}

const text = { type: "string" };
const count = { type: "integer", minimum: 1 };
const metadataPath = "/.well-known/oauth-protected-resource";

export default defineStep<Options>({
  name: "jwt-auth",
  contract: "^1.2",
  description: "Authenticates callers by OIDC access tokens.",
  options: {
    type: "object",
    properties: {
      issuer: { ...text, description: "The value of `iss`." },
      audience: { ...text, description: "The value of `aud`." },
      jwks: { ...text, description: "Address of the provider's keys." },
      workspaceClaim: { ...text, default: "org_id", description: "Claim with the workspace's id." },
      plan: { enum: plans, default: "enterprise", description: "Plan of all callers." },
      rps: { ...count, default: 10, description: "Requests per second without the claim." },
      rpsClaim: { ...text, default: "rps", description: "Claim with the requests per second." },
      dailyMilliCu: { ...count, description: "Credit in 24 hours without the claim." },
      dailyMilliCuClaim: { ...text, default: "daily_milli_cu", description: "Claim with it." },
      resource: { ...text, description: "Address of /mcp; its metadata (RFC 9728) is answered." },
    },
    required: ["issuer", "audience", "jwks"],
    additionalProperties: false,
  },
  provides: { principal: "requestHeaders" },
  permissions: { hosts: ["*"], body: "none" },
  start(options, host) {
    const { clock, environment } = host;
    const { issuer, audience, resource } = options;
    const provider = host.upstream(options.jwks, { answerMs: 5_000 });
    const keys = createRemoteJWKSet(new URL(options.jwks), {
      async [customFetch]() {
        const { status, body } = await provider.request();
        return new Response(body.toString(), { status });
      },
    });
    // A token is verified once. Its principal remains the same object while the token is in use.
    const known = new BoundedMap<string, { principal: KeyPrincipal; until: number }>(10_000);
    const at = resource && `Bearer resource_metadata="${new URL(metadataPath, resource).href}"`;
    const metadata = { resource, authorization_servers: [issuer] };

    function principalOf(claims: JWTPayload): KeyPrincipal | undefined {
      const { sub, iat = 0, scope, [options.workspaceClaim]: id } = claims;
      if (sub === undefined || typeof id !== "string") return undefined;
      const scopes = new Set(String(scope ?? "").split(" "));
      const owned = capabilities.filter((each) => scopes.has(each));
      const rps = positive(claims[options.rpsClaim]) ?? options.rps;
      const cuLimit24hMilli = positive(claims[options.dailyMilliCuClaim]) ?? options.dailyMilliCu;
      const createdAt = iat * 1000;
      const limits = { rpsLimit: rps, cuLimit24hMilli, cuLimit30dMilli: undefined };
      const ends = { expiresAt: undefined, revokedAt: undefined, allowedAddresses: undefined };
      const who = { id: `oidc_${sub}`, workspaceId: id, name: sub, environment, createdAt };
      const plan = { name: options.plan, rps, includedMilliCu: 0, overageUsdPerCu: "0" };
      const later = { pendingPlan: undefined, pendingPlanAt: undefined };
      const paid = { purchasedTotalMilliCu: 0, overageLimitCuMilli: undefined };
      return {
        kind: "key",
        key: { ...who, ...limits, ...ends, capabilities: new Set(owned) },
        workspace: { id, name: id, plan: plan.name, createdAt, ...later, ...paid },
        plan,
        rps,
      };
    }

    async function verified(token: string): Promise<KeyPrincipal | undefined> {
      const currentDate = new Date(clock.now());
      const { payload } = await jwtVerify(token, keys, { issuer, audience, currentDate });
      const principal = principalOf(payload);
      if (principal) known.set(token, { principal, until: (payload.exp ?? 0) * 1000 });
      return principal;
    }

    return {
      async requestHeaders(x) {
        if (resource !== undefined && x.request.path.startsWith(metadataPath)) {
          const type = ["content-type", "application/json"];
          return { status: 200, headers: type, body: JSON.stringify(metadata) };
        }
        const token = /^Bearer (\S+)$/.exec(x.request.headers.authorization ?? "")?.[1];
        if (token === undefined) return void x.set("principal", missing);
        const found = known.get(token);
        const isFresh = found !== undefined && found.until > clock.now();
        // The refusal is the same for a wrong token and for a provider that does not answer.
        const principal = isFresh ? found.principal : await verified(token).catch(() => undefined);
        if (principal === undefined) return void x.set("principal", unauthorized);
        const { id, workspaceId, capabilities: owned } = principal.key;
        const isOperator = owned.has("platform:admin");
        x.note("caller", { id, group: workspaceId, burst: 2 * principal.rps, isOperator });
        x.set("principal", principal);
        return undefined;
      },
      // The refusal itself is the task of `authorize`, so that public routes work without a token.
      responseHeaders(_, head) {
        if (head.status === 401 && at !== undefined) head.set("www-authenticate", at);
      },
    };
  },
});
