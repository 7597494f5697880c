/** The cookies of the dashboard, which scripts cannot read. */
import type { FastifyRequest } from "fastify";

export interface CookieKind {
  /** First part of the name. */
  readonly prefix: string;
  readonly path: string;
  readonly sameSite: "Strict" | "Lax";
}

/**
 * Returns the value of `Set-Cookie`. `seconds`: 0 removes the cookie. `isSecure`: true if the browser has loaded the page
 * over TLS.
 */
export function setCookie(
  kind: CookieKind,
  request: FastifyRequest,
  value: string,
  { seconds, isSecure }: { readonly seconds: number; readonly isSecure: boolean },
): string {
  const { path, sameSite } = kind;
  const secure = isSecure ? "; Secure" : "";
  const name = nameOf(kind, request);
  return `${name}=${value}; Path=${path}; Max-Age=${seconds}; HttpOnly; SameSite=${sameSite}${secure}`;
}

/**
 * Returns the value of a cookie. Undefined if there is none or more than one, because other servers on this host can set
 * cookies, and users must not work in a session that is not theirs.
 */
export function readCookie(kind: CookieKind, request: FastifyRequest): string | undefined {
  const head = `${nameOf(kind, request)}=`;
  const pairs = (request.headers.cookie ?? "").split(";").map((pair) => pair.trim());
  const [own, ...planted] = pairs.filter((pair) => pair.startsWith(head));
  return planted.length === 0 ? own?.slice(head.length) : undefined;
}

/** The name contains the port, because cookies ignore ports and two gateways on one machine need separate sessions. */
function nameOf({ prefix }: CookieKind, request: FastifyRequest): string {
  return `${prefix}_${request.socket.localPort ?? 0}`;
}

/** Returns true if the page was loaded over TLS (from a proxy), which the origin of its requests shows. */
export function isSecurePage(origin: string | undefined): boolean {
  return origin?.startsWith("https://") === true;
}
