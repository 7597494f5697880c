/** Finds the callers of tokens: verifies each token once, with the keys of the provider. */
import { isDeepStrictEqual } from "node:util";
import { createRemoteJWKSet, customFetch, errors, jwtVerify, type JWTPayload } from "jose";
import type { Host } from "sluice-gateway/plugin";
import type { KeyPrincipal } from "sluice-gateway/services";
import { BoundedMap } from "sluice-gateway/toolkit";
import { principalOf, type Mapping } from "./principal.ts";

export interface TokenOptions extends Mapping {
  readonly issuer: string;
  readonly audience: string;
  readonly jwks: string;
}

/** A verified token. `readAt`: the time at which its workspace was read. */
interface Verified {
  readonly claims: JWTPayload;
  readonly principal?: KeyPrincipal | undefined;
  readonly readAt: number;
}

/** Algorithms with private keys. Nobody can sign a token with a public key as the shared secret of HS256. */
const algorithms = [
  "RS256",
  "RS384",
  "RS512",
  "PS256",
  "PS384",
  "PS512",
  "ES256",
  "ES384",
  "ES512",
];
/** The errors of the library that concern the keys of the provider. All others concern the token. */
const keyErrors = new Set(["ERR_JOSE_GENERIC", "ERR_JWKS_INVALID", "ERR_JWKS_TIMEOUT"]);
/** A change of a workspace takes effect after this time, as for API keys. */
const freshMs = 1_000;
const maxTokens = 10_000;

/**
 * Returns the function that finds the caller of a token. Its result is undefined if the token is not valid, and remains
 * the same object until the workspace changes. Rejects if the keys or the accounts cannot be read.
 */
export function createCallers(options: TokenOptions, host: Host) {
  const { issuer, audience, jwks } = options;
  const provider = host.upstream(jwks, { answerMs: 5_000 });
  const keys = createRemoteJWKSet(new URL(jwks), {
    async [customFetch]() {
      const { status, body } = await provider.request();
      return new Response(body.toString(), { status });
    },
  });
  const known = new BoundedMap<string, Verified>(maxTokens);

  async function verified(token: string): Promise<Verified | undefined> {
    const currentDate = new Date(host.clock.now());
    const rules = { issuer, audience, currentDate, algorithms, requiredClaims: ["exp", "sub"] };
    try {
      const { payload: claims } = await jwtVerify(token, keys, rules);
      return { claims, readAt: -Infinity };
    } catch (error) {
      if (error instanceof errors.JOSEError && !keyErrors.has(error.code)) return undefined;
      throw error;
    }
  }

  return async (token: string): Promise<KeyPrincipal | undefined> => {
    const found = known.get(token) ?? (await verified(token));
    const now = host.clock.now();
    if (found === undefined || Number(found.claims.exp) * 1000 <= now) return undefined;
    const { claims, principal, readAt } = found;
    if (now - readAt < freshMs) return principal;
    const read = await principalOf(claims, options, host).catch((error: unknown) => {
      // The accounts cannot be read now. A caller whose workspace was read before remains known.
      if (principal === undefined) throw error;
      return principal;
    });
    const current = isDeepStrictEqual(read, principal) ? principal : read;
    known.set(token, { claims, principal: current, readAt: now });
    return current;
  };
}
