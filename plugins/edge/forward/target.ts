/** Which path and query an upstream is asked for: the client's own bytes, but for a prefix taken off and one put on. */
import type { RequestHead } from "sluice-gateway/plugin";

export type Mapped =
  | { readonly kind: "target"; readonly target: string }
  /** The path does not start with the prefix that is to be taken off. */
  | { readonly kind: "outside" }
  /** The path climbs: an upstream that resolves it would leave what the route covers. */
  | { readonly kind: "climbs" };

interface Prefixes {
  readonly stripPrefix?: string;
  readonly prefix?: string;
}

export function mapTarget(request: RequestHead, { stripPrefix, prefix = "" }: Prefixes): Mapped {
  const { path, target } = request;
  if (climbs(path)) return { kind: "climbs" };
  if (stripPrefix === undefined) return { kind: "target", target: prefix + target };
  if (!isBelow(path, stripPrefix)) return { kind: "outside" };
  const rest = target.slice(stripPrefix.length);
  return { kind: "target", target: prefix + (rest.startsWith("/") ? rest : `/${rest}`) };
}

/** `/api` covers `/api` and `/api/x`, not `/apix`. */
function isBelow(path: string, prefix: string): boolean {
  if (!path.startsWith(prefix)) return false;
  return path.length === prefix.length || path[prefix.length] === "/";
}

/**
 * Whether an upstream might find `.` or `..` in the path, however it is written. Routes match paths as they are sent, so
 * `/open/..%2Fclosed` would otherwise reach `/closed` of an upstream that decodes before it resolves. Tomcat and Jetty
 * drop a segment's parameters before they resolve it: `..;x=1` is `..` for them.
 */
function climbs(path: string): boolean {
  if (!path.includes("/.") && !path.includes("%") && !path.includes("\\")) return false;
  return path
    .replaceAll(/%2e/gi, ".")
    .split(/\/|\\|%2f|%5c/i)
    .map((segment) => segment.split(/;|%3b/i, 1)[0])
    .some((name) => name === "." || name === "..");
}
