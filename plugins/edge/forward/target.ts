/** Maps the request target to that of the upstream: the client's unchanged bytes, with a prefix removed or added. */
import type { RequestHead } from "sluice-gateway/plugin";

export type MappedTarget =
  | { readonly kind: "target"; readonly target: string }
  /** The path does not start with the prefix to remove. */
  | { readonly kind: "outside" }
  /** The path contains `..` or the like, so an upstream might resolve it to a path outside the route. */
  | { readonly kind: "leavesRoute" };

interface Prefixes {
  readonly stripPrefix?: string;
  readonly prefix?: string;
}

export function mapTarget(
  request: RequestHead,
  { stripPrefix, prefix = "" }: Prefixes,
): MappedTarget {
  const { path, target } = request;
  if (mayLeaveRoute(path)) return { kind: "leavesRoute" };
  if (stripPrefix === undefined) return { kind: "target", target: prefix + target };
  if (!isBelow(path, stripPrefix)) return { kind: "outside" };
  const rest = target.slice(stripPrefix.length);
  return { kind: "target", target: prefix + (rest.startsWith("/") ? rest : `/${rest}`) };
}

/** Returns true if the path is in the prefix: `/api` contains `/api` and `/api/x`, but not `/apix`. */
function isBelow(path: string, prefix: string): boolean {
  if (!path.startsWith(prefix)) return false;
  return path.length === prefix.length || path[prefix.length] === "/";
}

/**
 * Returns true if an upstream might find `.` or `..` in the path, in any encoding. Routes match unchanged paths, so
 * `/open/..%2Fclosed` would otherwise reach `/closed` of an upstream that decodes before it resolves. Tomcat and Jetty
 * remove a segment's parameters before they resolve it, so they treat `..;x=1` as `..`.
 */
function mayLeaveRoute(path: string): boolean {
  if (!path.includes("/.") && !path.includes("%") && !path.includes("\\")) return false;
  return path
    .replaceAll(/%2e/gi, ".")
    .split(/\/|\\|%2f|%5c/i)
    .map((segment) => segment.split(/;|%3b/i, 1)[0])
    .some((name) => name === "." || name === "..");
}
