import assert from "node:assert/strict";
import { test } from "node:test";
import { rateLimit } from "./accounts.ts";
import { redisDisruptions } from "./redis-disruptions.ts";

const { burst } = rateLimit;
const fault = (kind: "kill Redis" | "stop Redis" | "empty Redis", begunAt: number) => ({
  kind,
  begunAt,
  repairedAt: begunAt + 1_000,
});

test("each fault of Redis is a disruption, and allows more if data was lost", () => {
  const faults = [fault("kill Redis", 0), fault("stop Redis", 500), fault("empty Redis", 900)];
  const found = redisDisruptions(faults, []);
  assert.deepEqual(
    found.map(({ extra }) => extra / burst),
    [2.25, 1, 1.25],
  );
  assert.deepEqual(found[0], { from: 0, to: 2_000, extra: 2.25 * burst });
});

test("warnings about the same outage count once, and those during an outage not at all", () => {
  const begins = (warnings: readonly number[], faults = [fault("stop Redis", 0)]): number[] =>
    redisDisruptions(faults, warnings)
      .slice(faults.length)
      .map(({ from }) => from + 1_000);
  assert.deepEqual(begins([10, 2_500]), []);
  assert.deepEqual(begins([2_501, 9_000, 4_001, 3_000]), [2_501, 9_000]);
  assert.deepEqual(begins([4_002, 2_501]), [2_501, 4_002]);
  // Redis stays reachable when it is emptied.
  assert.deepEqual(begins([10], [fault("empty Redis", 0)]), [10]);
});
