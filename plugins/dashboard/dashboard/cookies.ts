import type { FastifyRequest } from "fastify";

export interface CookieKind {
  /** First part of the name of a cookie that was set without TLS. */
  readonly prefix: string;
  readonly path: string;
  readonly sameSite: "Strict" | "Lax";
}

/** `seconds`: 0 removes the cookie. `isSecure`: true if the browser has loaded the page over TLS. */
export function setCookie(
  kind: CookieKind,
  request: FastifyRequest,
  value: string,
  { seconds, isSecure }: { readonly seconds: number; readonly isSecure: boolean },
): string {
  const { path, sameSite } = kind;
  const [scope, secure] = isSecure ? ["/", "; Secure"] : [path, ""];
  const name = nameOf(kind, request, isSecure);
  return `${name}=${value}; Path=${scope}; Max-Age=${seconds}; HttpOnly; SameSite=${sameSite}${secure}`;
}

/**
 * Returns the opened value of the cookie of a request. A cookie that was set with TLS comes first. `open`: returns
 * undefined if the value is not valid. It must refuse a cookie that was not set with this `isSecure`, because other
 * servers can set a cookie without the prefix.
 */
export function openCookie<T>(
  kind: CookieKind,
  request: FastifyRequest,
  open: (value: string, isSecure: boolean) => T | undefined,
): T | undefined {
  for (const isSecure of [true, false]) {
    const value = readCookie(nameOf(kind, request, isSecure), request);
    const opened = value === undefined ? undefined : open(value, isSecure);
    if (opened !== undefined) return opened;
  }
  return undefined;
}

/**
 * Returns the value of a cookie. Undefined if there is none or more than one, because other servers on this host can
 * set cookies, and users must not work in a session that is not theirs.
 */
function readCookie(name: string, request: FastifyRequest): string | undefined {
  const head = `${name}=`;
  const pairs = (request.headers.cookie ?? "").split(";").map((pair) => pair.trim());
  const [own, ...planted] = pairs.filter((pair) => pair.startsWith(head));
  return planted.length === 0 ? own?.slice(head.length) : undefined;
}

/**
 * The name contains the port, because cookies ignore ports and two gateways on one machine need separate sessions.
 * Behind TLS, browsers accept a cookie with the prefix `__Host-` from this host only, and not from its subdomains or
 * siblings.
 */
function nameOf({ prefix }: CookieKind, request: FastifyRequest, isSecure: boolean): string {
  return `${isSecure ? "__Host-" : ""}${prefix}_${request.socket.localPort ?? 0}`;
}

/** Returns true if the page was loaded over TLS (from a proxy), which the origin of its requests shows. */
export function isSecurePage(origin: string | undefined): boolean {
  return origin?.startsWith("https://") === true;
}
