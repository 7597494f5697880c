/** An OpenID provider for tests, which follows the protocol until a test changes its behaviour. */
import { createHash, randomUUID } from "node:crypto";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { exportJWK, generateKeyPair, SignJWT, type CryptoKey, type JWTPayload } from "jose";

export const clientId = "sluice";
/** Characters that the form and the header must encode. */
export const clientSecret = "a secret+with/odd:characters%";

export interface Confirmed {
  readonly claims?: JWTPayload;
  /** Claims of the userinfo endpoint. By default only the subject. */
  readonly userinfo?: object;
  /** Returns the ID token. By default it is as it should be. */
  readonly idToken?: (own: { readonly claims: JWTPayload; readonly key: CryptoKey }) => unknown;
}

interface Code extends Confirmed {
  readonly challenge: string;
  readonly nonce: string;
  readonly redirectUri: string;
}

interface StandardDocument {
  readonly issuer: string;
  readonly authorization_endpoint: string;
  readonly token_endpoint: string;
  readonly jwks_uri: string;
  readonly userinfo_endpoint: string;
}

type Answer = (request: IncomingMessage, response: ServerResponse) => void;

export interface ScriptedProvider extends AsyncDisposable {
  readonly issuer: string;
  readonly asked: string[];
  readonly standard: StandardDocument;
  /** Members that replace those of the discovery document. */
  document: object;
  readonly answers: Map<string, Answer>;
  /** Confirms a sign-in at `url`, and returns the address to which the provider sends the browser back. */
  confirm(url: string, confirmed?: Confirmed): URL;
}

export const discoveryPath = "/.well-known/openid-configuration";

export async function startScriptedProvider(): Promise<ScriptedProvider> {
  const { publicKey, privateKey } = await generateKeyPair("RS256");
  const jwk = { ...(await exportJWK(publicKey)), kid: "one", alg: "RS256", use: "sig" };
  const codes = new Map<string, Code>();
  const tokens = new Map<string, object>();
  const asked: string[] = [];
  const answers = new Map<string, Answer>();
  const server = createServer((request, response) => {
    const path = (request.url ?? "").split("?", 1)[0] ?? "";
    asked.push(path);
    const scripted = answers.get(path);
    if (scripted !== undefined) return scripted(request, response);
    void answer(path, request).then(({ status, body }) => sendJson(response, status, body));
  });
  server.listen(0, "127.0.0.1");
  await new Promise((resolve) => server.once("listening", resolve));
  const issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;

  const answer = async (
    path: string,
    request: IncomingMessage,
  ): Promise<{ status: number; body: object }> => {
    if (path === discoveryPath) return { status: 200, body: { ...standard, ...provider.document } };
    if (path === "/jwks") return { status: 200, body: { keys: [jwk] } };
    if (path === "/token") return grant(request);
    const token = (request.headers.authorization ?? "").replace("Bearer ", "");
    const claims = path === "/userinfo" ? tokens.get(token) : undefined;
    return claims === undefined ? { status: 404, body: {} } : { status: 200, body: claims };
  };
  const standard = {
    issuer,
    authorization_endpoint: `${issuer}/authorize`,
    token_endpoint: `${issuer}/token`,
    jwks_uri: `${issuer}/jwks`,
    userinfo_endpoint: `${issuer}/userinfo`,
    response_types_supported: ["code"],
    id_token_signing_alg_values_supported: ["RS256"],
    authorization_response_iss_parameter_supported: true,
  };
  const grant = async (request: IncomingMessage): Promise<{ status: number; body: object }> => {
    const form = await readForm(request);
    const isKnown =
      request.headers.authorization === basic() || form.get("client_secret") === clientSecret;
    if (!isKnown) return { status: 401, body: { error: "invalid_client" } };
    const code = codes.get(form.get("code") ?? "");
    codes.delete(form.get("code") ?? "");
    const challenge = createHash("sha256")
      .update(form.get("code_verifier") ?? "")
      .digest("base64url");
    if (code?.challenge !== challenge || code.redirectUri !== form.get("redirect_uri")) {
      return { status: 400, body: { error: "invalid_grant", error_description: "hostile text" } };
    }
    const seconds = Math.floor(Date.now() / 1000);
    const claims: JWTPayload = {
      iss: issuer,
      aud: clientId,
      sub: "user-1",
      iat: seconds,
      exp: seconds + 300,
      nonce: code.nonce,
      ...code.claims,
    };
    const token = randomUUID();
    tokens.set(token, code.userinfo ?? { sub: claims.sub });
    const idToken = code.idToken ?? (({ claims: own, key }) => signed(own, key));
    const body = {
      access_token: token,
      token_type: "Bearer",
      expires_in: 300,
      id_token: await idToken({ claims, key: privateKey }),
    };
    return { status: 200, body };
  };

  const provider: ScriptedProvider = {
    issuer,
    asked,
    answers,
    standard,
    document: {},
    confirm(url, confirmed = {}) {
      const { searchParams } = new URL(url);
      const read = (name: string): string => searchParams.get(name) ?? "";
      const code = randomUUID();
      const redirectUri = read("redirect_uri");
      const challenge = read("code_challenge");
      codes.set(code, { ...confirmed, challenge, redirectUri, nonce: read("nonce") });
      const back = new URL(redirectUri);
      back.search = String(new URLSearchParams({ code, state: read("state"), iss: issuer }));
      return back;
    },
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
  return provider;
}

export function signed(claims: JWTPayload, key: CryptoKey, kid = "one"): Promise<string> {
  return new SignJWT(claims).setProtectedHeader({ alg: "RS256", kid }).sign(key);
}

export function sendJson(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
}

/** RFC 6749 section 2.3.1: the id and the secret are encoded like the values of a form. */
function basic(): string {
  const encoded = (text: string): string => new URLSearchParams({ "": text }).toString().slice(1);
  const pair = `${encoded(clientId)}:${encoded(clientSecret)}`;
  return `Basic ${Buffer.from(pair).toString("base64")}`;
}

async function readForm(request: IncomingMessage): Promise<URLSearchParams> {
  let text = "";
  for await (const part of request) text += String(part);
  return new URLSearchParams(text);
}
