import assert from "node:assert/strict";
import { test } from "node:test";
import { rateLimit } from "./accounts.ts";
import { redisDisruptions, RedisOutages } from "./redis-disruptions.ts";

const { burst } = rateLimit;
const fault = (kind: "kill Redis" | "stop Redis" | "empty Redis", begunAt: number) => ({
  kind,
  begunAt,
  repairedAt: begunAt + 1_000,
});

test("a loss of data is a disruption, and a fault without an outage is none", () => {
  const faults = [fault("kill Redis", 0), fault("stop Redis", 500), fault("empty Redis", 900)];
  const extra = 1.25 * burst;
  assert.deepEqual(redisDisruptions(faults, []), [
    { from: 0, to: 2_000, extra },
    { from: 900, to: 2_900, extra },
  ]);
});

test("the outages of replicas are one disruption if the next one begins before all have ended", () => {
  const outages = [
    { from: 3_000, to: 9_000 },
    { from: 2_500, to: 2_600 },
    { from: 9_900, to: 9_950 },
    { from: 11_000, to: 12_000 },
  ];
  assert.deepEqual(redisDisruptions([], outages), [
    { from: 1_500, to: 9_950, extra: burst },
    { from: 10_000, to: 12_000, extra: burst },
  ]);
});

test("an outage lasts until its replica reports its end, or ends itself", () => {
  const down = '{"level":40,"msg":"Redis does not answer: each gateway allows its share"}';
  const up = '{"level":30,"msg":"Redis answers"}';
  const outages = new RedisOutages();
  outages.read("one", up, 1);
  outages.read("one", down, 2);
  outages.read("two", down, 3);
  outages.read("three", down, 4);
  outages.read("two", up, 5);
  outages.end("three", 6);
  outages.end("two", 7);
  assert.deepEqual(outages.all(8), [
    { from: 3, to: 5 },
    { from: 4, to: 6 },
    { from: 2, to: 8 },
  ]);
});
