/** Finds the callers of tokens: verifies each token once, with the keys of the provider. */
import { createRemoteJWKSet, customFetch, errors, jwtVerify, type JWTPayload } from "jose";
import type { Host, UpstreamClient } from "sluice-gateway/plugin";
import { anonymous, capabilities } from "sluice-gateway/services";
import type { Caller, PlanName, ReceivedClaims } from "sluice-gateway/services";
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
}

/** Algorithms with private keys. Nobody can sign a token with a public key as the shared secret of HS256. */
const allowed = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512"];
/** The errors of the library that concern the keys of the provider. All others concern the token. */
const keyErrors = new Set(["ERR_JOSE_GENERIC", "ERR_JWKS_INVALID", "ERR_JWKS_TIMEOUT"]);

/** Returns the function that finds the caller of an `Authorization` header. The function never fails. */
export function createCallers(options: Options, host: Host) {
  const { issuer, audience, jwks } = options;
  const accounts = host.use("accounts");
  const keys = createRemoteJWKSet(new URL(jwks), { [customFetch]: fetchOf(jwks, host) });
  const rules = { issuer, audience, algorithms: allowed, requiredClaims: ["exp"] };
  const known = new BoundedMap<string, ReceivedClaims>(10_000);

  async function verified(token: string): Promise<ReceivedClaims> {
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
      // The library's message names the wrong claim, and contains no part of the token.
      if (isTokenError) return anonymous("unauthorized", { cause: `token: ${error.message}` });
      host.log.warn({ err: error }, "a token could not be checked");
      return { kind: "unavailable" };
    }
  };
}

/** `accounts.identifyClaims` checks the values, so most of them are passed as the provider has sent them. */
function claimsOf(payload: JWTPayload, options: Options): ReceivedClaims {
  if (typeof payload.sub !== "string") throw new errors.JWTInvalid("a token without a user");
  // Most providers send the scopes as text, and some as an array.
  const scopes = [payload[options.scopeClaim]].flat().join(" ").split(" ");
  return {
    // A subject is unique only at its issuer. The options allow no `#` in an issuer, so no two users have the same id.
    id: `${options.issuer}#${payload.sub}`,
    workspaceId: payload[options.workspaceClaim],
    plan: payload[options.planClaim] ?? undefined,
    defaultPlan: options.plan,
    capabilities: capabilities.filter((name) => scopes.includes(name)),
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
    const now = host.clock.monotonic();
    if (now < nextAt) throw new Error("the provider has failed within the last second");
    nextAt = now + 1_000;
    return fetch(...request);
  };
}
