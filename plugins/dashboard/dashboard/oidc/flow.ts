/** A sign-in that is in progress. Its facts are in a sealed cookie, so any replica can finish it. */
import { createHmac, randomUUID } from "node:crypto";
import type { FastifyRequest } from "fastify";
import { isSecurePage, openCookie, setCookie, type CookieKind } from "../cookies.ts";
import type { DashboardDeps } from "../deps.ts";
import type { SessionRef } from "../session.ts";

const purpose = "dashboard sign-in";
/** The provider sends the browser back by a navigation from another site, with which `Strict` cookies are not sent. */
const kind: CookieKind = {
  prefix: "sluice_sign_in",
  path: "/dashboard/oidc",
  sameSite: "Lax",
};
const lifeMs = 600_000;

export interface Flow {
  readonly id: string;
  /** The origin of the page, to which the provider sends the browser back. */
  readonly origin: string;
  /** The provider at which the sign-in was started (`providerId`). */
  readonly provider: string;
  /** The session that the browser had when the sign-in started. It ends when the new one starts. */
  readonly replaces?: SessionRef;
}

/** The values that tie the answer of the provider to this browser. */
export interface FlowSecrets {
  readonly state: string;
  readonly nonce: string;
  /** The code verifier of PKCE (RFC 7636). */
  readonly verifier: string;
}

export interface Flows {
  begin(
    request: FastifyRequest,
    wanted: Omit<Flow, "id">,
  ): { readonly flow: Flow; readonly cookie: string };
  /** Undefined if there is none, or it has expired. */
  open(request: FastifyRequest): Flow | undefined;
  /** Marks the flow as used. Resolves to false if it was already used. Rejects with a StoreError. */
  finish(flow: Flow): Promise<boolean>;
  secretsOf(flow: Flow): FlowSecrets;
  /** Returns the cookie that removes the flow's cookie. `origin`: that of the page. */
  noCookie(request: FastifyRequest, origin: string | undefined): string;
}

export function createFlows({ seal, claims }: Pick<DashboardDeps, "seal" | "claims">): Flows {
  const key = seal.key("dashboard sign-in secrets");
  /** Derived from the id, because browsers can read sealed values. */
  const secret = (name: string, { id }: Flow): string =>
    createHmac("sha256", key).update(`${name}\n${id}`).digest("base64url");
  const openToken = (token: string, isSecure: boolean): Flow | undefined => {
    const opened = seal.open(purpose, token);
    if (opened === undefined || claims.now() >= opened.expiresAt) return undefined;
    // Only `begin` seals for this purpose.
    const flow = opened.value as Flow;
    return isSecurePage(flow.origin) === isSecure ? flow : undefined;
  };
  return {
    begin(request, wanted) {
      const { origin } = wanted;
      const flow: Flow = { ...wanted, id: randomUUID() };
      const token = seal.seal(purpose, flow, claims.now() + lifeMs);
      const limits = { seconds: lifeMs / 1000, isSecure: isSecurePage(origin) };
      return { flow, cookie: setCookie(kind, request, token, limits) };
    },
    open: (request) => openCookie(kind, request, openToken),
    finish: async ({ id }) => claims.claim(`${purpose} ${id}`, claims.now() + lifeMs),
    secretsOf: (flow) => ({
      state: secret("state", flow),
      nonce: secret("nonce", flow),
      verifier: secret("verifier", flow),
    }),
    noCookie: (request, origin) =>
      setCookie(kind, request, "", { seconds: 0, isSecure: isSecurePage(origin) }),
  };
}
