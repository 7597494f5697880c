/** Names the plugins that block the event loop. Every other request waits while a hook computes, even /healthz. */
import type { Log } from "../../plugin.ts";

/** Hooks that compute for this many milliseconds are logged. */
const blockingMs = 1_000;

interface Watched {
  readonly route: { readonly path: string };
  readonly runtime: { readonly log: Log };
}

/**
 * Logs the plugin if its hook has computed for too long. `tookMs`: time until the hook has returned, which can be a
 * promise.
 */
export function warnIfBlocking(x: Watched, plugin: string, tookMs: number): void {
  if (tookMs < blockingMs) return;
  const about = { plugin, route: x.route.path, ms: Math.round(tookMs) };
  x.runtime.log.warn(about, "a hook of a plugin blocked all requests");
}
