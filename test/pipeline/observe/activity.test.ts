import assert from "node:assert/strict";
import { test } from "node:test";
import { Activity, Recent, stepMs, steps } from "../../../src/pipeline/observe/activity.ts";
import type { KeyPrincipal } from "../../../src/plugin.ts";

const start = Date.UTC(2026, 10, 21, 12);

/** An exchange of a workspace, as far as the activity reads it. */
function ended(more: {
  workspace?: string;
  at?: number;
  status?: number;
  code?: string;
  requestId?: string;
}): Parameters<Activity["settled"]>[0] {
  const { workspace, at = start, status = 200, code, requestId = "r1" } = more;
  const principal =
    workspace === undefined
      ? undefined
      : // Only its ids are read.
        ({ kind: "key", key: { id: "key_1" }, workspace: { id: workspace } } as KeyPrincipal);
  const slots = { principal, requestId, charge: { usedMilli: 7 } };
  return {
    arrivedAt: at,
    request: { method: "POST" },
    route: { path: "/rpc" },
    sent: { status, code },
    calls: undefined,
    peek: (slot: string) => slots[slot as keyof typeof slots] as never,
  };
}

test("a count is known by steps of five seconds for ten minutes, and as a whole", () => {
  const recent = new Recent();
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

test("a clock that jumps back counts in the newest step", () => {
  const recent = new Recent();
  recent.add(start);
  recent.add(start - 60_000);
  assert.equal(recent.read(start).at(-1), 2);
});

test("a workspace's exchanges count in its own tally and in everybody's, a stranger's only there", () => {
  const activity = new Activity();
  activity.settled(ended({ workspace: "ws_1" }), 4);
  activity.settled(ended({ workspace: "ws_2", status: 429, code: "GATEWAY_RATE_LIMITED" }), 1);
  activity.settled(ended({ status: 401, code: "GATEWAY_UNAUTHORIZED" }), 1);
  activity.settled(
    ended({ workspace: "ws_1", status: 503, code: "GATEWAY_SERVICE_UNAVAILABLE" }),
    9,
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
  assert.equal(own?.quantile(0.5), 4);
  assert.equal(own?.quantile(1), 9);
  assert.equal(activity.group("ws_2").failed.total, 0);
  assert.equal(activity.group("ws_3").requests.total, 0);
});

test("single exchanges are kept only while somebody watches, the newest hundred of them", () => {
  const activity = new Activity();
  activity.settled(ended({ requestId: "before" }), 1);
  assert.deepEqual(activity.all.watch(start), []);
  for (let i = 0; i < 120; i++) activity.settled(ended({ at: start + i, requestId: `r${i}` }), 1);
  const seen = activity.all.watch(start + 1_000);
  assert.equal(seen.length, 100);
  assert.deepEqual(seen[0], {
    at: start + 119,
    ms: 1,
    method: "POST",
    route: "/rpc",
    status: 200,
    code: undefined,
    callerId: undefined,
    callerGroup: undefined,
    requestId: "r119",
    costMilli: 7,
    calls: undefined,
  });
  activity.settled(ended({ at: start + 60_000, requestId: "unseen" }), 1);
  assert.deepEqual(activity.all.watch(start + 61_000), []);
});

test("a tally holds no more than it says however many workspaces come", () => {
  const activity = new Activity();
  for (let i = 0; i <= 4_096; i++) activity.settled(ended({ workspace: `ws_${i}` }), 1);
  assert.equal(activity.group("ws_0").requests.total, 0);
  assert.equal(activity.group("ws_4096").requests.total, 1);
  assert.equal(activity.all.requests.total, 4_097);
});
