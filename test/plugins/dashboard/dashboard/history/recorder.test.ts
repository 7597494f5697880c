/** Tests of the algorithms of the health over time: percentiles, pruning, and the bound on names. */
import assert from "node:assert/strict";
import { test } from "node:test";
import * as fc from "fast-check";
import type { Clock } from "sluice-gateway/plugin";
import {
  addCounts,
  addDuration,
  percentile,
  type Counts,
} from "../../../../../plugins/dashboard/dashboard/history/histogram.ts";
import { HistoryRecorder } from "../../../../../plugins/dashboard/dashboard/history/recorder.ts";
import {
  createHistoryStore,
  type HistoryStore,
  type Span,
} from "../../../../../plugins/dashboard/dashboard/history/store.ts";
import {
  addStored,
  newSum,
  type ExchangeSum,
} from "../../../../../plugins/dashboard/dashboard/history/sums.ts";
import { manualClock } from "../../../../../src/testing/clock.ts";
import { noon, settledExchange } from "./settled-exchange.ts";
import { temporaryFolder } from "../../../../store/folder.ts";
import { openFolderSql } from "../../../../store/open-sql.ts";
import { silentLog } from "../../../../test-log.ts";

const minute = 60_000;

async function sumOf(
  store: HistoryStore,
  kind: string,
  name: string,
  span: Span = "minute",
): Promise<ExchangeSum> {
  const sum = newSum();
  for (const row of await store.read({ span, kind, from: 0, to: Date.UTC(2100, 0, 1) })) {
    if (row.name === name) addStored(sum, row.sum);
  }
  return sum;
}

test("percentiles of added histograms are within 10 % of the exact ones", () => {
  const durations = fc.array(fc.double({ min: 0.2, max: 100_000, noNaN: true }), {
    minLength: 1,
    maxLength: 200,
  });
  fc.assert(
    fc.property(durations, durations, (one, other) => {
      const counts: Counts = {};
      const more: Counts = {};
      for (const ms of one) addDuration(counts, ms);
      for (const ms of other) addDuration(more, ms);
      addCounts(counts, more);
      const all = [...one, ...other].toSorted((a, b) => a - b);
      for (const q of [0.5, 0.95, 0.99]) {
        const exact = all[Math.ceil(q * all.length) - 1] ?? 0;
        const found = percentile(counts, q) ?? 0;
        assert.ok(found > exact / 1.2 && found < exact * 1.2, `${found} for ${exact}`);
      }
    }),
  );
  assert.equal(percentile({}, 0.5), undefined);
});

test("rows are pruned by age, and distinct names are bounded", async (t) => {
  const time = manualClock(noon);
  // A month has too many minutes to run the timer in each.
  const clock: Clock = {
    now: () => time.now(),
    monotonic: () => time.monotonic(),
    after: (ms, task) => time.after(ms, task),
    every: () => ({ [Symbol.dispose]() {} }),
  };
  const store = createHistoryStore(await openFolderSql(t, temporaryFolder(t)));
  const recorder = new HistoryRecorder({ store, clock, log: silentLog });
  for (let route = 0; route < 300; route++) {
    recorder.settled(settledExchange({ route: { path: `/${route}` } }));
  }
  await recorder.flush();
  const count = async (span: Span): Promise<number> =>
    (await store.read({ span, kind: "route", from: 0, to: Date.UTC(2100, 0, 1) })).length;
  const names = await count("minute");
  assert.ok(names <= 101);
  assert.equal((await sumOf(store, "route", "other")).n, 300 - (names - 1));
  time.advance(26 * 60 * minute);
  recorder.settled(settledExchange({ arrivedAt: clock.now() }));
  await recorder.flush();
  assert.equal(await count("minute"), 1);
  time.advance(32 * 24 * 60 * minute);
  recorder.settled(settledExchange({ arrivedAt: clock.now() }));
  await recorder.flush();
  assert.equal(await count("hour"), 1);
  await recorder.close();
});
