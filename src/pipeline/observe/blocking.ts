/** Names the plugins that block the event loop. Every other request waits while a hook computes, even /healthz. */
import type { Log } from "../../plugin.ts";
import type { RouteStepStats } from "./step-stats.ts";

const blockingMs = 1_000;

interface Watched {
  readonly route: { readonly path: string };
  readonly runtime: { readonly log: Log };
  readonly compiled: { readonly stepStats: Pick<RouteStepStats, "blocked"> };
}

/** `tookMs`: time until the hook has returned, which can be a promise. */
export function warnIfBlocking(x: Watched, depth: number, tookMs: number): void {
  if (tookMs < blockingMs) return;
  const plugin = x.compiled.stepStats.blocked(depth);
  const about = { plugin, route: x.route.path, ms: Math.round(tookMs) };
  x.runtime.log.warn(about, "a hook of a plugin blocked all requests");
}
