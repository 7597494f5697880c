/** Metrics, log and clock that record the calls of the code under test. */
import { EventEmitter, once } from "node:events";
import type { Log } from "../../../../src/contract/log.ts";
import type { Metrics } from "../../../../src/contract/metrics.ts";
import type { PluginStorage } from "../../../../src/contract/storage.ts";
import { manualClock, type ManualClock } from "../../../../src/testing/clock.ts";
import { keptLog } from "../../../test-log.ts";

export interface Observed {
  readonly clock: ManualClock;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly storage: () => PluginStorage;
  /** Returns the value of a series, such as `name{label="x"}`. Undefined if it is not declared. */
  value(series: string): number | undefined;
  /** The log lines, as `level message`. */
  readonly lines: readonly string[];
  readonly timers: readonly number[];
  timer(matches: (ms: number) => boolean): Promise<number>;
}

export function observed(): Observed {
  const values = new Map<string, number>();
  const { log, lines } = keptLog();
  const timers: number[] = [];
  const set = new EventEmitter();
  const manual = manualClock();
  const family = (name: string) => ({
    with(labels: Readonly<Record<string, string>>) {
      const pairs = Object.entries(labels).map(([label, value]) => `${label}="${value}"`);
      const series = `${name}{${pairs.join(",")}}`;
      const add = (n: number): void => void values.set(series, (values.get(series) ?? 0) + n);
      add(0);
      return { add, set: (n: number) => void values.set(series, n), observe: () => {} };
    },
  });
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
    metrics: { counter: family, gauge: family, histogram: family },
    value: (series) => values.get(series),
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
