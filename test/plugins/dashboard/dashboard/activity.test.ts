import assert from "node:assert/strict";
import { test } from "node:test";
import {
  Activity,
  keptExchanges,
  quantile,
  RecentCounter,
  stepMs,
  steps,
} from "../../../../plugins/dashboard/dashboard/activity.ts";
import { ExchangeRecord } from "../../../../src/pipeline/observe/record.ts";

const start = Date.UTC(2026, 10, 21, 12);

/** The record of an exchange that has ended. */
function ended(more: {
  group?: string;
  at?: number;
  ms?: number;
  status?: number;
  code?: string;
  requestId?: string;
}): ExchangeRecord {
  const { group, at = start, ms = 1, status = 200, code, requestId = "r1" } = more;
  const route = { path: "/rpc", surface: "chat", steps: [] };
  const record = new ExchangeRecord(at, "POST", route, undefined);
  record.facts.requestId = requestId;
  if (group !== undefined) {
    record.facts.caller = { id: "key_1", group, burst: 2, isOperator: false };
  }
  return Object.assign(record, { ms, status, code });
}

test("counts events of the last ten minutes in steps of five seconds, and their total", () => {
  const recent = new RecentCounter();
  recent.add(start);
  recent.add(start + 1);
  recent.add(start + stepMs);
  assert.deepEqual(recent.read(start + stepMs).slice(-3), [0, 2, 1]);
  assert.deepEqual(recent.read(start + 3 * stepMs).slice(-4), [2, 1, 0, 0]);
  assert.equal(recent.read(start + (steps - 1) * stepMs)[0], 2);
  const later = recent.read(start + steps * stepMs);
  assert.equal(later.length, steps);
  assert.equal(later[0], 1);
  assert.deepEqual(recent.read(start + 2 * steps * stepMs), Array(steps).fill(0));
  assert.equal(recent.total, 3);
});

test("counts in the newest step if the clock jumps back", () => {
  const recent = new RecentCounter();
  recent.add(start);
  recent.add(start - 60_000);
  assert.equal(recent.read(start).at(-1), 2);
});

test("a user who begins to watch sees the refused exchanges from before, newest first, of the group only", () => {
  const activity = new Activity();
  activity.settled(ended({ group: "ws_1", requestId: "passed" }));
  for (let n = 0; n < 250; n++) {
    const group = n % 2 === 0 ? "ws_1" : "ws_2";
    const code = "GATEWAY_RATE_LIMITED";
    activity.settled(ended({ group, status: 429, code, requestId: `r${n}` }));
  }
  const idsOf = (group?: string): (string | undefined)[] =>
    activity.watch(start + 1_000, group).map(({ facts }) => facts.requestId);
  const all = idsOf();
  assert.deepEqual([all.length, all[0], all.at(-1)], [200, "r249", "r50"]);
  const own = idsOf("ws_1");
  assert.deepEqual([own.length, own[0], own.at(-1)], [100, "r248", "r50"]);
  activity.settled(ended({ at: start + 1_000, group: "ws_1", requestId: "new" }));
  assert.equal(idsOf("ws_1")[0], "new");
  assert.equal(idsOf().length, 201);
});

test("counts an exchange in the tally of its group and in that of all callers", () => {
  const activity = new Activity();
  activity.settled(ended({ group: "ws_1", ms: 4 }));
  activity.settled(ended({ group: "ws_2", status: 429, code: "GATEWAY_RATE_LIMITED" }));
  activity.settled(ended({ status: 401, code: "GATEWAY_UNAUTHORIZED" }));
  activity.settled(
    ended({ group: "ws_1", ms: 9, status: 503, code: "GATEWAY_SERVICE_UNAVAILABLE" }),
  );
  assert.equal(activity.all.requests.total, 4);
  assert.equal(activity.all.refused.total, 3);
  assert.equal(activity.all.failed.total, 1);
  assert.deepEqual(
    [...activity.all.refusals].map(([code, { total }]) => [code, total]),
    [
      ["GATEWAY_RATE_LIMITED", 1],
      ["GATEWAY_UNAUTHORIZED", 1],
      ["GATEWAY_SERVICE_UNAVAILABLE", 1],
    ],
  );
  const own = activity.group("ws_1");
  assert.equal(own?.requests.total, 2);
  assert.equal(own?.refused.total, 1);
  assert.equal(quantile([...own.durations], 0.5), 4);
  assert.equal(quantile([...own.durations], 1), 9);
  assert.equal(quantile([], 0.5), undefined);
  assert.equal(activity.group("ws_2").failed.total, 0);
  assert.equal(activity.group("ws_3").requests.total, 0);
});

test("keeps single exchanges only while somebody is viewing, and only the newest 2,000", () => {
  const activity = new Activity();
  activity.settled(ended({ requestId: "before" }));
  assert.deepEqual(activity.all.watch(start), []);
  const records = Array.from({ length: keptExchanges + 20 }, (_, i) =>
    ended({ at: start + i, requestId: `r${i}` }),
  );
  for (const record of records) activity.settled(record);
  const seen = activity.all.watch(start + 5_000);
  assert.equal(seen.length, keptExchanges);
  assert.deepEqual(
    seen.map(({ facts }) => facts.requestId),
    records
      .slice(20)
      .toReversed()
      .map(({ facts }) => facts.requestId),
  );
  activity.settled(ended({ at: start + 60_000, requestId: "unseen" }));
  assert.deepEqual(activity.all.watch(start + 61_000), []);
});

test("drops the oldest group when there are too many", () => {
  const activity = new Activity();
  for (let i = 0; i <= 4_096; i++) activity.settled(ended({ group: `ws_${i}` }));
  assert.equal(activity.group("ws_0").requests.total, 0);
  assert.equal(activity.group("ws_4096").requests.total, 1);
  assert.equal(activity.all.requests.total, 4_097);
});
