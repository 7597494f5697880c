import type { Condition, RouteConfig } from "./config.ts";

export function pathProblem(path: string): string | undefined {
  if (!path.startsWith("/")) return 'it does not start with "/"';
  if (/[?#]/.test(path)) return "it contains a query or a fragment";
  if (/[^\x21-\x7e]/.test(path))
    return "it contains white space or non-ASCII characters (percent-encode them)";
  const segments = path.slice(1).split("/");
  const names: string[] = [];
  for (const [index, segment] of segments.entries()) {
    const isLast = index === segments.length - 1;
    if (segment === "" && !isLast) return 'it contains "//"';
    if (segment === "." || segment === "..") return `it contains a "${segment}" segment`;
    if (segment.includes("*") && (segment !== "*" || !isLast)) {
      return '"*" is only allowed as the whole last segment';
    }
    const problem = segmentProblem(segment, names);
    if (problem !== undefined) return problem;
  }
  return undefined;
}

function segmentProblem(segment: string, names: string[]): string | undefined {
  if (/%(?![0-9a-f]{2})/i.test(segment)) return `"${segment}" is not percent-encoded correctly`;
  if (!/[{}]/.test(segment)) return undefined;
  const name = /^\{([A-Za-z_][A-Za-z0-9_]*)\}$/.exec(segment)?.[1];
  if (name === undefined)
    return `"${segment}" is not a {name} segment: the braces must enclose the whole segment`;
  if (names.includes(name)) return `it contains {${name}} twice`;
  names.push(name);
  return undefined;
}

interface Pattern {
  readonly segments: readonly string[];
  readonly open: boolean;
}

function parse(path: string): Pattern {
  const segments = path.slice(1).split("/");
  const open = segments.at(-1) === "*";
  return { segments: open ? segments.slice(0, -1) : segments, open };
}

function isName(segment: string): boolean {
  return segment.startsWith("{");
}

/** Literal patterns come first, then patterns with names, then patterns ending in `*`. */
function routerPriority(pattern: Pattern): number {
  if (pattern.open) return 2;
  return pattern.segments.some(isName) ? 1 : 0;
}

/**
 * Whether the router sends every path that `later` matches to `earlier` instead. Mirrors src/pipeline/load/router.ts: a
 * more exact group comes first, and within a group the order in pipeline.yaml decides.
 */
export function coversAllPaths(earlier: string, later: string): boolean {
  const a = parse(earlier);
  const b = parse(later);
  if (routerPriority(a) !== routerPriority(b)) return false;
  if (a.open ? a.segments.length > b.segments.length : a.segments.length !== b.segments.length) {
    return false;
  }
  return a.segments.every((segment, index) => {
    const other = b.segments[index];
    // A {name} does not match an empty segment: /a/{b} does not match /a/.
    return isName(segment) ? other !== "" : segment === other;
  });
}

function matchesWholeRoute(conditionPath: string, routePath: string): boolean {
  const { segments, open } = parse(routePath);
  const firstName = segments.findIndex(isName);
  const isLiteral = firstName === -1 && !open;
  if (!conditionPath.endsWith("*")) return isLiteral && conditionPath === routePath;
  const literal = firstName === -1 ? segments : segments.slice(0, firstName);
  const start = isLiteral ? routePath : `/${literal.map((segment) => `${segment}/`).join("")}`;
  return start.startsWith(conditionPath.slice(0, -1));
}

/** Both paths are those of conditions, where only a final `*` is special. */
function pathImplies(inner: string, outer: string): boolean {
  if (!outer.endsWith("*")) return inner === outer;
  const prefix = outer.slice(0, -1);
  return (inner.endsWith("*") ? inner.slice(0, -1) : inner).startsWith(prefix);
}

type RouteSpace = Pick<RouteConfig, "path" | "methods">;

/** The parts of `outer` that a request may fail although it meets `inner`. Empty if `inner` implies `outer`. */
export function unimpliedParts(
  outer: Condition | undefined,
  inner: Condition | undefined,
  route: RouteSpace | undefined,
): string[] {
  if (outer === undefined) return [];
  const parts: string[] = [];
  if (outer.path !== undefined && !pathCovered(outer.path, inner, route)) parts.push("path");
  if (outer.methods !== undefined && !methodsCovered(outer.methods, inner, route)) {
    parts.push("methods");
  }
  for (const [name, value] of Object.entries(outer.header ?? {})) {
    const given = inner?.header?.[name];
    if (given === undefined || (value !== "*" && given !== value)) parts.push(`header ${name}`);
  }
  return parts;
}

function pathCovered(
  path: string,
  inner: Condition | undefined,
  route: RouteSpace | undefined,
): boolean {
  if (route !== undefined && matchesWholeRoute(path, route.path)) return true;
  return inner?.path !== undefined && pathImplies(inner.path, path);
}

function methodsCovered(
  methods: readonly string[],
  inner: Condition | undefined,
  route: RouteSpace | undefined,
): boolean {
  const allowed = new Set(methods);
  const covers = (some: readonly string[] | undefined): boolean =>
    some !== undefined && some.every((method) => allowed.has(method));
  return covers(inner?.methods) || covers(route && withHead(route.methods));
}

export function withHead(methods: readonly string[]): readonly string[] {
  return methods.includes("GET") && !methods.includes("HEAD") ? [...methods, "HEAD"] : methods;
}

export function pathNeverMatches(conditionPath: string, routePath: string): boolean {
  const { segments, open } = parse(routePath);
  const firstName = segments.findIndex(isName);
  if (firstName === -1 && !open) return !pathImplies(routePath, conditionPath);
  const literal = firstName === -1 ? segments : segments.slice(0, firstName);
  const start = `/${literal.map((segment) => `${segment}/`).join("")}`;
  const wanted = conditionPath.endsWith("*") ? conditionPath.slice(0, -1) : conditionPath;
  return !wanted.startsWith(start) && !(conditionPath.endsWith("*") && start.startsWith(wanted));
}
