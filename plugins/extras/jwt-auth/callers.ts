/** Verifies tokens with the keys of the provider, and keeps the results for a short time. */
import { createRemoteJWKSet, customFetch, errors, jwtVerify, type JWTPayload } from "jose";
import type { Host, UpstreamClient } from "sluice-gateway/plugin";

type ClaimOption = "workspaceClaim" | "scopeClaim" | "planClaim" | "rpsClaim" | "dailyMilliCuClaim";

/** The value of an option such as `planClaim` is the name of the claim. */
export interface Options extends Readonly<Record<ClaimOption, string>> {
  readonly issuer: string;
  readonly audience: string;
  readonly jwks: string;
  readonly plan?: string;
  readonly rps?: number;
  readonly dailyMilliCu?: number;
}

/** Algorithms with private keys. With HS256, anyone could sign a token with the public key as the shared secret. */
const allowed = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512"];
/** The errors of the library that concern the keys of the provider. All others concern the token. */
const keyErrors = new Set(["ERR_JOSE_GENERIC", "ERR_JWKS_INVALID", "ERR_JWKS_TIMEOUT"]);
/** The scopes that have a meaning: the capabilities of API keys. */
const capabilities =
  "ledger:read ledger:write platform:read docs:read inference workspace:admin platform:admin";
/** Maximum age of the keys and of a verification. A withdrawn key is thus used for at most twice this time. */
const maxAgeMs = 120_000;

const anonymous = <const Reason>(reason: Reason, cause: string) =>
  ({ kind: "anonymous", reason, cause }) as const;

/** Returns the function that finds the caller of an `Authorization` header. It never fails. */
export function createCallers(options: Options, host: Host) {
  const { issuer, audience, jwks } = options;
  const accounts = host.use("accounts");
  const fetch = fetchOf(jwks, host);
  const keys = createRemoteJWKSet(new URL(jwks), { [customFetch]: fetch, cacheMaxAge: maxAgeMs });
  const rules = { issuer, audience, algorithms: allowed, requiredClaims: ["exp"] };
  /** `until`: the monotonic time at which a token must be verified again. */
  const known = new Map<string, { claims: ReturnType<typeof readClaims>; until: number }>();

  async function claimsOf(token: string) {
    const found = known.get(token);
    const now = host.clock.monotonic();
    if (found !== undefined && now < found.until) return found.claims;
    const currentDate = new Date(host.clock.now());
    const { payload } = await jwtVerify(token, keys, { ...rules, currentDate });
    // The accounts return the same caller for the same object, so the claims of a known token are kept.
    const claims = found?.claims ?? readClaims(payload, options);
    if (known.size >= 10_000) known.clear();
    known.set(token, { claims, until: now + maxAgeMs });
    return claims;
  }

  return async (authorization: string | undefined) => {
    if (authorization === undefined) return anonymous("missing authorization header", "missing");
    const token = /^Bearer ([\w-]+\.[\w-]+\.[\w-]*)$/.exec(authorization)?.[1];
    if (token === undefined) return anonymous("invalid authorization format", "malformed");
    try {
      return await accounts.identifyClaims(await claimsOf(token));
    } catch (error) {
      const isTokenError = error instanceof errors.JOSEError && !keyErrors.has(error.code);
      // The library's message names the wrong claim, and contains no part of the token.
      if (isTokenError) return anonymous("unauthorized", `token: ${error.message}`);
      host.log.warn({ err: error }, "a token could not be checked");
      return { kind: "unavailable" } as const;
    }
  };
}

/** `accounts.identifyClaims` checks the values, so most of them are passed as the provider has sent them. */
function readClaims(payload: JWTPayload, options: Options) {
  if (typeof payload.sub !== "string") throw new errors.JWTInvalid("a token without a user");
  // Most providers send the scopes as text, and some as an array.
  const scopes = [payload[options.scopeClaim]].flat().join(" ").split(" ");
  return {
    // A subject is unique only at its issuer. The options allow no `#` in an issuer, so no two users have the same id.
    id: `${options.issuer}#${payload.sub}`,
    workspaceId: payload[options.workspaceClaim],
    plan: payload[options.planClaim] ?? undefined,
    defaultPlan: options.plan,
    capabilities: capabilities.split(" ").filter((name) => scopes.includes(name)),
    rpsLimit: payload[options.rpsClaim] ?? options.rps,
    cuLimit24hMilli: payload[options.dailyMilliCuClaim] ?? options.dailyMilliCu,
    expiresAt: Number(payload.exp) * 1000,
  };
}

/** Returns a `fetch` that asks the provider at most once per second, so that wrong tokens cannot flood it. */
function fetchOf(jwks: string, host: Host): UpstreamClient["fetch"] {
  const { fetch } = host.upstream(jwks);
  let nextAt = 0;
  return async (...request) => {
    if (host.clock.monotonic() < nextAt) throw new Error("the provider has just failed");
    nextAt = host.clock.monotonic() + 1_000;
    return fetch(...request);
  };
}
