/** Finds the callers of tokens: verifies each token once, with the keys of the provider. */
import { createRemoteJWKSet, customFetch, errors, jwtVerify, type JWTPayload } from "jose";
import type { Host } from "sluice-gateway/plugin";
import { anonymous, capabilities, planNames } from "sluice-gateway/services";
import type { Caller, CallerClaims, PlanName } from "sluice-gateway/services";
import { BoundedMap } from "sluice-gateway/toolkit";

export interface Options {
  readonly issuer: string;
  readonly audience: string;
  readonly jwks: string;
  readonly workspaceClaim: string;
  readonly scopeClaim: string;
  readonly planClaim: string;
  readonly plan?: PlanName;
  readonly rpsClaim: string;
  readonly rps?: number;
  readonly dailyMilliCuClaim: string;
  readonly dailyMilliCu?: number;
  readonly resource?: string;
}

/** Algorithms with private keys. Nobody can sign a token with a public key as the shared secret of HS256. */
const allowed = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512"];
/** The errors of the library that concern the keys of the provider. All others concern the token. */
const keyErrors = new Set(["ERR_JOSE_GENERIC", "ERR_JWKS_INVALID", "ERR_JWKS_TIMEOUT"]);

/** Returns the function that finds the caller of an `Authorization` header. The function never fails. */
export function createCallers(options: Options, host: Host) {
  const { issuer, audience, jwks } = options;
  const accounts = host.use("accounts");
  const { fetch } = host.upstream(jwks, { answerMs: 5_000 });
  const keys = createRemoteJWKSet(new URL(jwks), { [customFetch]: fetch });
  const rules = { issuer, audience, algorithms: allowed, requiredClaims: ["exp", "sub"] };
  const known = new BoundedMap<string, CallerClaims>(10_000);

  async function verified(token: string): Promise<CallerClaims> {
    const currentDate = new Date(host.clock.now());
    const { payload } = await jwtVerify(token, keys, { ...rules, currentDate });
    const claims = claimsOf(payload, options);
    known.set(token, claims);
    return claims;
  }

  return async (authorization: string | undefined): Promise<Caller> => {
    if (authorization === undefined) return anonymous("missing authorization header");
    const token = /^Bearer ([\w-]+\.[\w-]+\.[\w-]*)$/.exec(authorization)?.[1];
    if (token === undefined) return anonymous("invalid authorization format");
    try {
      return await accounts.identifyClaims(known.get(token) ?? (await verified(token)));
    } catch (error) {
      const isTokenError = error instanceof errors.JOSEError && !keyErrors.has(error.code);
      if (isTokenError) return anonymous("unauthorized");
      host.log.warn({ err: error }, "a token could not be checked");
      return { kind: "unavailable" };
    }
  };
}

function claimsOf(payload: JWTPayload, options: Options): CallerClaims {
  const { [options.workspaceClaim]: workspaceId, [options.scopeClaim]: scope } = payload;
  if (typeof workspaceId !== "string") throw new errors.JWTInvalid("a token without a workspace");
  // Most providers send the scopes as text, and some as an array.
  const scopes = [scope].flat().join(" ").split(" ");
  return {
    id: `oidc_${payload.sub}`,
    workspaceId,
    plan: planNames.find((name) => name === payload[options.planClaim]),
    defaultPlan: options.plan,
    capabilities: capabilities.filter((name) => scopes.includes(name)),
    rpsLimit: positive(payload[options.rpsClaim]) ?? options.rps,
    cuLimit24hMilli: positive(payload[options.dailyMilliCuClaim]) ?? options.dailyMilliCu,
    expiresAt: Number(payload.exp) * 1000,
  };
}

/** Returns undefined for a claim that is not a positive integer. */
function positive(claim: unknown): number | undefined {
  return Number.isSafeInteger(claim) && Number(claim) > 0 ? Number(claim) : undefined;
}
