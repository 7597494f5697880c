/** Metrics, log and clock that record the calls of the code under test. */
import { EventEmitter, once } from "node:events";
import { createMetrics } from "../../../../src/base/metrics.ts";
import type { Log } from "../../../../src/contract/log.ts";
import type { Metrics } from "../../../../src/contract/metrics.ts";
import type { PluginStorage } from "../../../../src/contract/storage.ts";
import { manualClock, type ManualClock } from "../../../../src/testing/clock.ts";
import { metricValue } from "../../../metric-value.ts";
import { keptLog } from "../../../test-log.ts";

export interface Observed {
  readonly clock: ManualClock;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly storage: () => PluginStorage;
  /** Returns the value of a series: see `metricValue`. */
  value(series: string): number | undefined;
  /** The log lines, as `level message`. */
  readonly lines: readonly string[];
  readonly timers: readonly number[];
  timer(matches: (ms: number) => boolean): Promise<number>;
}

export function observed(): Observed {
  const { log, lines } = keptLog();
  const timers: number[] = [];
  const set = new EventEmitter();
  const manual = manualClock();
  const metrics = createMetrics();
  const storage = memoryStorage();
  return {
    clock: {
      ...manual,
      after(ms, task) {
        timers.push(ms);
        const timer = manual.after(ms, task);
        set.emit("timer", ms);
        return timer;
      },
    },
    log,
    storage: () => storage,
    metrics,
    value: (series) => metricValue(metrics, series),
    lines,
    timers,
    async timer(matches) {
      for (;;) {
        const [ms] = (await once(set, "timer")) as [number];
        if (matches(ms)) return ms;
      }
    },
  };
}

function memoryStorage(): PluginStorage {
  const entries = new Map<string, string>();
  return {
    get: async (key) => entries.get(key),
    set: async (key, value) => void entries.set(key, value),
    delete: async (key) => void entries.delete(key),
    list: async () => [...entries.keys()],
  };
}
