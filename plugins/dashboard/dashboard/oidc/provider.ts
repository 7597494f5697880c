/** The OpenID provider: authorization code flow with PKCE, by the package openid-client. */
import * as client from "openid-client";
import type { SendRequest } from "sluice-gateway/internal/http";
import type { Clock } from "sluice-gateway/plugin";
import type { FlowSecrets } from "./flow.ts";
import { NoAnswerError, providerFetch } from "./provider-fetch.ts";
import { isComplete, mergeClaims, type Claims, type OidcOptions } from "./user.ts";

/** A short time lets the sign-in page notice that the provider cannot be reached. */
const freshMs = 60_000;
const clockToleranceSeconds = 30;

/**
 * Thrown if the provider or its answer prevents a sign-in. `isUnavailable`: true if the provider does not send a usable
 * answer, so that the user can try again later. The message is for the log and may contain a code that the provider
 * sent.
 */
export class ProviderError extends Error {
  readonly isUnavailable: boolean;

  constructor(message: string, isUnavailable: boolean) {
    super(message);
    this.isUnavailable = isUnavailable;
  }
}

export interface Provider {
  /** Rejects with a ProviderError. */
  signInUrl(secrets: FlowSecrets, redirectUri: string): Promise<string>;
  /** `returned`: the address to which the provider has sent the browser. Rejects with a ProviderError. */
  claimsOf(returned: URL, secrets: FlowSecrets): Promise<Claims>;
}

export interface ProviderDeps {
  readonly options: OidcOptions;
  readonly send: SendRequest;
  readonly clock: Clock;
}

/** Nothing is sent before the first sign-in, so a provider that cannot be reached does not prevent the start. */
export function openProvider({ options, send, clock }: ProviderDeps): Provider {
  const { issuer } = options;
  let known: { readonly config: client.Configuration; readonly until: number } | undefined;
  let pending: Promise<client.Configuration> | undefined;

  const discover = async (): Promise<client.Configuration> => {
    const config = await discovery(options, providerFetch(issuer, send, clock));
    known = { config, until: clock.now() + freshMs };
    return config;
  };
  /** Failures are not cached, so each sign-in tries again. Sign-ins at the same time share one request. */
  const discovered = async (): Promise<client.Configuration> => {
    if (known !== undefined && clock.now() < known.until) return known.config;
    pending ??= discover().finally(() => (pending = undefined));
    return pending;
  };

  return {
    signInUrl: async ({ state, nonce, verifier }, redirectUri) =>
      checked(async () => {
        const config = await discovered();
        const url = client.buildAuthorizationUrl(config, {
          redirect_uri: redirectUri,
          scope: [...new Set(["openid", ...options.scopes])].join(" "),
          state,
          nonce,
          code_challenge: await client.calculatePKCECodeChallenge(verifier),
          code_challenge_method: "S256",
        });
        // The browser opens this address, so an address such as `javascript:` must be refused.
        const { protocol, hostname } = new URL(issuer);
        const isIssuersHost = url.protocol === protocol && url.hostname === hostname;
        if (url.protocol !== "https:" && !isIssuersHost) {
          throw new ProviderError("the authorization endpoint has no https address", true);
        }
        return url.href;
      }),
    claimsOf: async (returned, { state, nonce, verifier }) =>
      checked(async () => {
        const config = await discovered();
        const tokens = await client.authorizationCodeGrant(config, returned, {
          expectedState: state,
          expectedNonce: nonce,
          pkceCodeVerifier: verifier,
          idTokenExpected: true,
        });
        const claims: Claims = { ...tokens.claims() };
        // Some providers put only a few claims into the ID token. The answer of this endpoint contains all of them.
        if (isComplete(claims, options)) return claims;
        if (config.serverMetadata().userinfo_endpoint === undefined) return claims;
        const subject = String(claims["sub"]);
        const more = await client.fetchUserInfo(config, tokens.access_token, subject);
        return mergeClaims(claims, more);
      }),
  };
}

async function discovery(
  { issuer, clientId, clientSecret }: OidcOptions,
  fetch: client.CustomFetch,
): Promise<client.Configuration> {
  const server = new URL(issuer);
  const isPlain = server.protocol === "http:";
  const config = await client.discovery(
    server,
    clientId,
    { [client.clockTolerance]: clockToleranceSeconds },
    authentication(clientSecret),
    {
      [client.customFetch]: fetch,
      execute: [
        client.enableNonRepudiationChecks,
        ...(isPlain ? [client.allowInsecureRequests] : []),
      ],
    },
  );
  // The library accepts a document of another issuer in two cases, such as a document for several tenants.
  const { issuer: stated } = config.serverMetadata();
  if (URL.parse(stated)?.href !== server.href) {
    throw new ProviderError("the discovery document has another issuer", true);
  }
  return config;
}

/** Sends the secret in the `Authorization` header, or in the form if the provider accepts it only there. */
function authentication(clientSecret: string): client.ClientAuth {
  const [basic, post] = [
    client.ClientSecretBasic(clientSecret),
    client.ClientSecretPost(clientSecret),
  ];
  return (server, own, body, headers) => {
    const methods = server.token_endpoint_auth_methods_supported ?? ["client_secret_basic"];
    const isPost =
      methods.includes("client_secret_post") && !methods.includes("client_secret_basic");
    return (isPost ? post : basic)(server, own, body, headers);
  };
}

async function checked<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw error instanceof ProviderError
      ? error
      : new ProviderError(reasonOf(error), isUnreachable(error));
  }
}

function isUnreachable(error: unknown): boolean {
  if (error instanceof NoAnswerError) return true;
  return error instanceof Error && error.cause !== error && isUnreachable(error.cause);
}

/** The `cause` is left out, because it may contain tokens. Codes of the provider are cut and made printable. */
function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return "failed";
  const own = "error" in error ? [error.error] : "code" in error ? [error.code] : [];
  const codes = own.filter((code) => typeof code === "string");
  const inner = error.cause instanceof NoAnswerError ? [error.cause.message] : [];
  return [error.message, ...codes, ...inner]
    .join(", ")
    .replaceAll(/[^ -~]/g, "?")
    .slice(0, 300);
}
