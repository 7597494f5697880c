/**
 * One array of hooks per phase, in the order in which they run. A phase that no plugin of the route uses costs nothing.
 */
import type { Condition, RouteConfig } from "../../config/config.ts";
import type {
  Counter,
  Exchange,
  Phase,
  RequestHead,
  StepHooks,
  SurfaceHooks,
} from "../../plugin.ts";
import { checkedHook } from "./checked-hook.ts";
import type { RouteNames } from "../observe/record.ts";
import { RouteStats, type CoreMetrics } from "../observe/stats.ts";
import { RouteStepStats } from "../observe/step-stats.ts";
import type { WaitLimit } from "../../base/wait-limit.ts";

export interface PlacedStep {
  readonly name: string;
  readonly depth: number;
  readonly hooks: StepHooks;
  readonly shadow: boolean;
  readonly when: Condition | undefined;
  readonly limit: WaitLimit | undefined;
  readonly isSkippable: boolean;
  readonly shadowRefusals: Counter;
}

/** The hooks that `runHooks` runs: those of the phases, and those that belong to a phase. */
export type HookName = Exclude<Phase, "answer"> | "message" | "responseFlush";

export interface PlacedHook {
  readonly step: PlacedStep;
  readonly depth: number;
  readonly hasState: boolean;
  /** All hooks take the exchange, the argument of their phase if it has one, and the state of their step. */
  readonly run: (this: StepHooks, x: Exchange, arg: unknown, state: unknown) => unknown;
}

/**
 * A compiled route. The hooks of the way down (`requestHeaders`, `requestBody`, `around`, `message`) are in the order
 * of the list, those of the way up in reverse.
 */
export interface CompiledRoute {
  readonly config: RouteConfig;
  readonly route: Exchange["route"];
  readonly shape: RouteNames;
  /** The methods for which other routes of the same path answer HTTP requests, for a route of WebSockets. */
  httpMethods: string;
  readonly steps: readonly PlacedStep[];
  readonly surface: SurfaceHooks;
  readonly stats: RouteStats;
  readonly stepStats: RouteStepStats;
  readonly conditional: readonly PlacedStep[];
  readonly bodyBytes: number | undefined;
  readonly tooLargeStatus: number;
  readonly mediaTypes: readonly string[] | undefined;
  /** True if the buffered body is JSON, whose bounds are checked before any hook gets it. */
  readonly readsJson: boolean;
  readonly requestHeaders: readonly PlacedHook[];
  readonly requestBody: readonly PlacedHook[];
  readonly around: readonly PlacedHook[];
  readonly message: readonly PlacedHook[];
  readonly responseHeaders: readonly PlacedHook[];
  readonly responseChunk: readonly PlacedHook[];
  readonly responseFlush: readonly PlacedHook[];
  readonly responseEnd: readonly PlacedHook[];
  readonly settled: readonly PlacedHook[];
}

/** Maximum size of a body that is buffered for a step without `bodyBytes` (decisions.md section 4). */
const defaultBodyBytes = 1 << 20;

export function compileRoute(
  config: RouteConfig,
  steps: readonly PlacedStep[],
  surface: SurfaceHooks,
  core: CoreMetrics,
): CompiledRoute {
  const upwards = steps.toReversed();
  const names = steps.map(({ name }) => name);
  return {
    config,
    route: { path: config.path, surface: config.to.name },
    shape: { path: config.path, surface: config.to.name, steps: names },
    httpMethods: "",
    steps,
    surface,
    stats: new RouteStats(core, config.path, config.methods),
    stepStats: new RouteStepStats(core, config.path, [...names, config.to.name]),
    conditional: steps.filter((step) => step.when !== undefined),
    bodyBytes: smallestCap(steps, surface),
    tooLargeStatus: firstTooLargeStatus(steps) ?? 413,
    mediaTypes: surface.body?.types,
    readsJson:
      readsJson(surface.body) || steps.some(({ hooks, shadow }) => !shadow && hooks.json === true),
    requestHeaders: hooksOf(steps, "requestHeaders"),
    requestBody: hooksOf(steps, "requestBody"),
    around: hooksOf(steps, "around"),
    message: hooksOf(steps, "message"),
    responseHeaders: hooksOf(upwards, "responseHeaders"),
    responseChunk: hooksOf(upwards, "responseChunk"),
    responseFlush: hooksOf(upwards, "responseFlush"),
    responseEnd: hooksOf(upwards, "responseEnd"),
    settled: hooksOf(upwards, "settled"),
  };
}

function hooksOf(steps: readonly PlacedStep[], name: HookName | "around"): PlacedHook[] {
  return steps.flatMap((step) => {
    const hook = step.hooks[name];
    if (hook === undefined) return [];
    // `runHooks` passes each phase the arguments that its hooks take.
    const plain = name === "responseFlush" ? withoutArgument(hook) : (hook as PlacedHook["run"]);
    const run = step.isSkippable ? checkedHook(name, plain) : plain;
    return { step, depth: step.depth, hasState: step.hooks.createState !== undefined, run };
  });
}

/** `responseFlush` has no argument of its own. */
function withoutArgument(hook: unknown): PlacedHook["run"] {
  const flush = hook as (this: StepHooks, x: Exchange, state: unknown) => unknown;
  return function (x, _, state) {
    return flush.call(this, x, state);
  };
}

function smallestCap(steps: readonly PlacedStep[], surface: SurfaceHooks): number | undefined {
  const caps = steps
    .filter((step) => step.hooks.requestBody !== undefined)
    .map((step) => step.hooks.bodyBytes ?? defaultBodyBytes);
  if (surface.body !== undefined) caps.push(surface.body.bytes);
  return caps.length === 0 ? undefined : Math.min(...caps);
}

function readsJson(body: SurfaceHooks["body"]): boolean {
  return body?.json ?? body?.types?.some((type) => /[/+]json$/i.test(type)) ?? false;
}

function firstTooLargeStatus(steps: readonly PlacedStep[]): number | undefined {
  const chosen = steps.find((step) => !step.shadow && step.hooks.tooLargeStatus !== undefined);
  return chosen?.hooks.tooLargeStatus;
}

export function matchesCondition(condition: Condition, request: RequestHead): boolean {
  const { path, methods, header } = condition;
  if (path !== undefined && !pathMatches(path, request.path)) return false;
  if (methods !== undefined && !methods.includes(request.method)) return false;
  if (header === undefined) return true;
  return Object.entries(header).every(([name, wanted]) => {
    const value = request.headers[name];
    return wanted === "*" ? value !== undefined : value === wanted;
  });
}

function pathMatches(pattern: string, path: string): boolean {
  return pattern.endsWith("*") ? path.startsWith(pattern.slice(0, -1)) : path === pattern;
}
