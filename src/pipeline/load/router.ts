/**
 * Literal paths come first, with one Map look-up, then the patterns with `{name}` segments, then those that end in `*`,
 * each group in the order of pipeline.yaml. Paths are matched as they were sent. Nothing is decoded or normalised
 * before, so `..` or `%2e` cannot bypass a policy.
 */
import { refuse } from "../../base/errors.ts";
import type { Exchange, Reply, SurfaceHooks } from "../../plugin.ts";
import type { CompiledRoute } from "../run/compile.ts";
import { LiveExchange } from "../run/exchange.ts";

export type Match =
  | {
      readonly kind: "route";
      readonly route: CompiledRoute;
      readonly params: Readonly<Record<string, string>>;
    }
  /** The path exists with other methods only. `allow`: value of the Allow header. */
  | { readonly kind: "wrongMethod"; readonly allow: string }
  | { readonly kind: "unknown" };

export interface Router {
  find(method: string, path: string): Match;
}

interface Place {
  readonly byMethod: Map<string, CompiledRoute>;
  readonly matches: Map<string, Match>;
  allow: string;
}
interface Pattern extends Place {
  readonly segments: readonly string[];
  readonly open: boolean;
}

const noParams: Readonly<Record<string, string>> = Object.freeze({});
const unknown: Match = { kind: "unknown" };

export function createRouter(routes: readonly CompiledRoute[]): Router {
  const literals = new Map<string, Place>();
  const patterns = new Map<string, Pattern>();
  for (const route of routes) place(route, literals, patterns);
  const ordered = [...patterns.values()].toSorted((a, b) => Number(a.open) - Number(b.open));
  return {
    find(method, path) {
      const literal = literals.get(path);
      if (literal !== undefined) return ofMethod(literal, method, noParams);
      return ordered.length === 0 ? unknown : findPattern(ordered, method, path);
    },
  };
}

function place(
  route: CompiledRoute,
  literals: Map<string, Place>,
  patterns: Map<string, Pattern>,
): void {
  const { path, methods } = route.config;
  let target: Place | undefined = literals.get(path) ?? patterns.get(path);
  if (target === undefined) {
    const empty: Place = { byMethod: new Map(), matches: new Map(), allow: "" };
    const segments = path.slice(1).split("/");
    const open = segments.at(-1) === "*";
    if (open || path.includes("{")) {
      const pattern = { ...empty, segments: open ? segments.slice(0, -1) : segments, open };
      patterns.set(path, pattern);
      target = pattern;
    } else {
      literals.set(path, empty);
      target = empty;
    }
  }
  for (const method of methods) {
    if (!target.byMethod.has(method)) target.byMethod.set(method, route);
  }
  const get = target.byMethod.get("GET");
  if (get !== undefined && !target.byMethod.has("HEAD")) target.byMethod.set("HEAD", get);
  target.allow = [...target.byMethod.keys()].join(", ");
  const overHttp = [...target.byMethod].filter(([, found]) => !found.config.websocket);
  for (const [method, found] of target.byMethod) {
    found.httpMethods = overHttp.map(([name]) => name).join(", ");
    target.matches.set(method, { kind: "route", route: found, params: noParams });
  }
}

function ofMethod(target: Place, method: string, params: Readonly<Record<string, string>>): Match {
  const match = target.matches.get(method) ?? target.matches.get("*");
  if (match === undefined) return { kind: "wrongMethod", allow: target.allow };
  return params === noParams || match.kind !== "route" ? match : { ...match, params };
}

function findPattern(patterns: readonly Pattern[], method: string, path: string): Match {
  const segments = path.slice(1).split("/");
  if (segments.some(isDotSegment)) return unknown;
  let wrongMethod: Match | undefined;
  for (const pattern of patterns) {
    const params = matchSegments(pattern, segments);
    if (params === undefined) continue;
    const match = ofMethod(pattern, method, params);
    if (match.kind === "route") return match;
    wrongMethod ??= match;
  }
  return wrongMethod ?? unknown;
}

/** `.` and `..`, also percent-encoded. An upstream that resolves them could leave the prefix of the route. */
function isDotSegment(segment: string): boolean {
  if (segment.length === 0 || segment.length > 6) return false;
  const plain = segment.replaceAll(/%2e/gi, ".");
  return plain === "." || plain === "..";
}

function matchSegments(
  pattern: Pattern,
  segments: readonly string[],
): Readonly<Record<string, string>> | undefined {
  const { segments: wanted, open } = pattern;
  if (open ? segments.length <= wanted.length : segments.length !== wanted.length) return undefined;
  const params: Record<string, string> = {};
  for (const [index, segment] of wanted.entries()) {
    const actual = segments[index] ?? "";
    if (!segment.startsWith("{")) {
      if (segment !== actual) return undefined;
      continue;
    }
    const value = decode(actual);
    if (value === undefined || value === "") return undefined;
    params[segment.slice(1, -1)] = value;
  }
  return params;
}

function decode(segment: string): string | undefined {
  if (!segment.includes("%")) return segment;
  try {
    return decodeURIComponent(segment);
  } catch {
    return undefined;
  }
}

/**
 * The end of the `unmatched` list: 405 where the path exists with other methods, else 404. A WebSocket handshake gets 426
 * instead of 405, because clients then use HTTP at once, and try again after any other status.
 */
export const unmatchedSurface: SurfaceHooks = {
  answer(x: Exchange) {
    const allow = x instanceof LiveExchange ? x.arrival.allow : undefined;
    if (allow === undefined) return refuse("GATEWAY_NOT_FOUND");
    if (x.request.headers["upgrade"]?.toLowerCase() === "websocket") {
      return refuse("GATEWAY_INVALID_PARAMS", {
        status: 426,
        message: "this path does not accept WebSocket connections",
        headers: ["allow", allow, "upgrade", "HTTP/1.1"],
      });
    }
    return methodNotAllowed(allow);
  },
};

export function methodNotAllowed(allow: string): Reply {
  return refuse("GATEWAY_INVALID_PARAMS", {
    status: 405,
    message: "method not allowed",
    headers: ["allow", allow],
  });
}
