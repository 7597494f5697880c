/** Describes the loaded order for /pipelines and `sluice check --json`, without options, which may contain secrets. */
import { defaultTimeoutMs } from "../../config/config.ts";
import type { Position } from "../../config/fault.ts";
import type { CompiledRoute } from "../run/compile.ts";
import type { Generation } from "./generation.ts";

interface StepDescription {
  readonly step: string;
  readonly mode: "enforce" | "shadow";
  readonly when?: object;
  readonly timeoutMs?: number;
  /** Missing if it is `refuse`, the default. */
  readonly onError?: "skip";
}

interface RouteDescription {
  readonly path: string;
  readonly methods: readonly string[];
  readonly run: readonly StepDescription[];
  readonly to: string;
  readonly at: Position;
  /** The steps whose hooks run, by phase, in the order in which they run. */
  readonly hooks: Readonly<Record<string, readonly string[]>>;
}

export function describePipelines(generation: Generation, reload: object): object {
  return {
    reload,
    routes: generation.routes.map(describeRoute),
    unmatched: describeRoute(generation.unmatched),
  };
}

export function describeRoute(route: CompiledRoute): RouteDescription {
  const { config, steps } = route;
  const phases = [
    "requestHeaders",
    "requestBody",
    "around",
    "message",
    "responseHeaders",
    "responseChunk",
    "responseEnd",
    "settled",
  ] as const;
  return {
    path: config.path,
    methods: config.methods,
    run: steps.map(({ name, shadow, when, limit, isSkippable }) => ({
      step: name,
      mode: shadow ? "shadow" : "enforce",
      ...(when !== undefined && { when }),
      ...(limit?.limitMs !== defaultTimeoutMs && { timeoutMs: limit?.limitMs ?? 0 }),
      ...(isSkippable && { onError: "skip" }),
    })),
    to: config.to.name,
    at: config.at,
    hooks: Object.fromEntries(
      phases.map((phase) => [phase, route[phase].map(({ step }) => step.name)]),
    ),
  };
}
