/** A certified OpenID provider of another project (oidc-provider), with its own pages to sign in and to consent. */
import { randomBytes } from "node:crypto";
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { exportJWK, generateKeyPair } from "jose";
import { Provider } from "oidc-provider";
import { clientId, clientSecret } from "./scripted-provider.ts";

export interface RealProvider extends AsyncDisposable {
  /** It has the host `localhost`, so it is another site than a gateway at 127.0.0.1. */
  readonly issuer: string;
  /** Starts to answer. `callback`: the address to which it may send browsers back. */
  start(callback: string): void;
  stop(): void;
}

/** `groups`: the groups of each user, by the name with which the user signs in. */
export async function openRealProvider(
  groups: Readonly<Record<string, readonly string[]>>,
): Promise<RealProvider> {
  let listener: RequestListener = (request) => request.destroy();
  const server = createServer((request, response) => listener(request, response));
  server.listen(0, "localhost");
  await new Promise((resolve) => server.once("listening", resolve));
  const issuer = `http://localhost:${(server.address() as AddressInfo).port}`;
  const { privateKey } = await generateKeyPair("RS256", { extractable: true });
  const jwk = { ...(await exportJWK(privateKey)), use: "sig", alg: "RS256" };
  return {
    issuer,
    start(callback) {
      const provider = new Provider(issuer, {
        clients: [{ client_id: clientId, client_secret: clientSecret, redirect_uris: [callback] }],
        claims: { email: ["email", "email_verified"], groups: ["groups"] },
        scopes: ["openid", "profile", "email", "groups"],
        cookies: { keys: [randomBytes(16).toString("hex")] },
        jwks: { keys: [jwk] },
        findAccount: (_: unknown, id: string) => ({
          accountId: id,
          claims: () => ({
            sub: id,
            email: `${id}@example.org`,
            email_verified: true,
            groups: groups[id] ?? [],
          }),
        }),
      });
      listener = provider.callback();
    },
    stop() {
      listener = (request) => request.destroy();
    },
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
