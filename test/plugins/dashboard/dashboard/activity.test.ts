/** Tests of the state machine of the view Live: which exchanges and groups it keeps. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { Activity, keptExchanges } from "../../../../plugins/dashboard/dashboard/activity.ts";
import { ExchangeRecord } from "../../../../src/pipeline/observe/record.ts";

const start = Date.UTC(2026, 10, 21, 12);

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
