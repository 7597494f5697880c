/** A gateway with several threads, through its listeners. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { pipeline, startThreads } from "./threads-gateway.ts";

test("all threads serve the port, and the admin listener adds them up", async (t) => {
  const gateway = await startThreads(t, pipeline(2));
  const seen = new Map<string, number>();
  await gateway.askUntil("/which", (answer) => {
    seen.set(answer, (seen.get(answer) ?? 0) + 1);
    return seen.size === 2;
  });
  assert.deepEqual([...seen.keys()].toSorted(), ["1", "2"]);
  const asked = [...seen.values()].reduce((sum, count) => sum + count);
  const metrics = await gateway.admin("/metrics");
  const counted = /^sluice_requests_total\{route="\/which".*status="2xx"\} (\d+)$/m.exec(metrics);
  assert.equal(Number(counted?.[1]), asked);
  const { threads } = JSON.parse(await gateway.admin("/pipelines"));
  assert.deepEqual(threads, [
    { thread: 1, state: "serving", generation: 1 },
    { thread: 2, state: "serving", generation: 1 },
  ]);
  const { checks } = JSON.parse(await gateway.admin("/readyz"));
  assert.equal(checks.threads, "ok");
});
