/**
 * Counts how long the code of a plugin takes outside of the hooks of routes, and how often it fails: tools, timers, and
 * the calls of the core to services. `step-stats.ts` counts the hooks of steps and surfaces.
 */
import type { HookCounts } from "../../contract/hook-counts.ts";
import type { Clock, Counter, Family, Metrics, Plugin } from "../../plugin.ts";

/** Returns the counts of a hook. Equal names return the same object. */
export type PluginCounts = (hook: string) => HookCounts;

type Labels = "plugin" | "kind" | "hook";

interface PluginMetrics {
  readonly seconds: Family<Labels, Counter>;
  readonly timed: Family<Labels, Counter>;
  readonly refusals: Family<Labels | "code", Counter>;
  readonly errors: Family<Labels | "reason", Counter>;
  readonly timeouts: Family<Labels, Counter>;
}

/** All instances of a plugin share their series. */
export function pluginCounts(
  { name, kind }: Pick<Plugin, "name" | "kind">,
  { metrics, clock }: { readonly metrics: Metrics; readonly clock: Pick<Clock, "monotonic"> },
): PluginCounts {
  const families = pluginMetrics(metrics);
  const hooks = new Map<string, HookCounts>();
  return (hook) => {
    let counts = hooks.get(hook);
    if (counts === undefined) {
      counts = hookCounts(families, { plugin: name, kind, hook }, clock);
      hooks.set(hook, counts);
    }
    return counts;
  };
}

function pluginMetrics(metrics: Metrics): PluginMetrics {
  const labels = ["plugin", "kind", "hook"] as const;
  return {
    seconds: metrics.counter(
      "sluice_plugin_seconds_total",
      "Time of a plugin's code outside of the hooks of routes, including waiting.",
      labels,
    ),
    timed: metrics.counter(
      "sluice_plugin_timed_total",
      "Calls of a plugin's code outside of the hooks of routes: tools, timers, and hooks of services.",
      labels,
    ),
    refusals: metrics.counter(
      "sluice_plugin_refusals_total",
      "Calls of a plugin's tools that were refused or failed, by code.",
      [...labels, "code"],
    ),
    errors: metrics.counter(
      "sluice_plugin_errors_total",
      "Failures of a plugin's code outside of the hooks of routes: it threw an exception, or broke its contract.",
      [...labels, "reason"],
    ),
    timeouts: metrics.counter(
      "sluice_plugin_timeouts_total",
      "Calls of a plugin's tools that exceeded their time limit.",
      labels,
    ),
  };
}

function hookCounts(
  { seconds, timed, refusals, errors, timeouts }: PluginMetrics,
  labels: Readonly<Record<Labels, string>>,
  clock: Pick<Clock, "monotonic">,
): HookCounts {
  // Bound once, because a tool counts each of its calls. Failures are rare.
  const [ownSeconds, ownTimed] = [seconds.with(labels), timed.with(labels)];
  const counts: HookCounts = {
    call(run) {
      const since = clock.monotonic();
      const ended = (): void => counts.ended(clock.monotonic() - since);
      const failed = (): void => {
        ended();
        counts.failed("throw");
      };
      let result: ReturnType<typeof run>;
      try {
        result = run();
      } catch (error) {
        failed();
        throw error;
      }
      // The caller gets the promise itself, and so its rejection.
      if (result instanceof Promise) result.then(ended, failed);
      else ended();
      return result;
    },
    ended(ms) {
      ownSeconds.add(ms / 1000);
      ownTimed.add(1);
    },
    refused: (code) => refusals.with({ ...labels, code }).add(1),
    failed: (reason) => errors.with({ ...labels, reason }).add(1),
    timedOut: () => timeouts.with(labels).add(1),
  };
  return counts;
}
