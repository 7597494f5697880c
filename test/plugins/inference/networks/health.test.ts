import assert from "node:assert/strict";
import { test } from "node:test";
import { Worker } from "../../../../plugins/inference/networks/worker.ts";
import { WorkerLoads } from "../../../../plugins/inference/networks/worker-load.ts";
import { observed } from "./observed-services.ts";
import { fakeRoute } from "./fake-route.ts";

const refused = { kind: "refused" } as const;
const broken = { kind: "closed" } as const;

interface Watched {
  readonly worker: Worker;
  /** Moves the time forward, and lets a probe that became due be answered. */
  pass(ms: number): Promise<void>;
  /** `ejected` and `readmitted`, in order. */
  readonly changes: readonly string[];
  probes: number;
  /** The result of the next probe. */
  answers: boolean;
  /** Milliseconds of each cooldown. */
  readonly rests: readonly number[];
}

function watch(probe?: () => Promise<boolean>): Watched {
  const { clock, timers } = observed();
  const changes: string[] = [];
  const listed = { id: "w", model: "m", coefficient: 1000, url: undefined } as const;
  const route = fakeRoute(() => {
    watched.probes++;
    return probe?.() ?? Promise.resolve(watched.answers);
  });
  const watched: Watched = {
    probes: 0,
    answers: false,
    changes,
    rests: timers,
    worker: new Worker({ ...listed, state: "active" }, route, {
      load: new WorkerLoads(undefined, "n").of("w"),
      clock,
      onEjectionChange: (worker) => void changes.push(worker.isEjected ? "ejected" : "readmitted"),
    }),
    async pass(ms) {
      clock.advance(ms);
      await new Promise((resolve) => setImmediate(resolve));
    },
  };
  return watched;
}

test("an unreachable worker is ejected at once, a failing one after three failures in a row", () => {
  const unreachable = watch();
  unreachable.worker.failed(refused);
  assert.ok(unreachable.worker.isEjected);
  const bad = watch();
  bad.worker.failed(broken);
  bad.worker.failed(broken);
  bad.worker.succeeded();
  bad.worker.failed(broken);
  bad.worker.failed(broken);
  assert.ok(!bad.worker.isEjected);
  bad.worker.failed(broken);
  assert.ok(bad.worker.isEjected);
  assert.deepEqual(bad.changes, ["ejected"]);
});

test("a worker is probed after its cooldown, readmitted if it answers, and else ejected for twice as long", async () => {
  const watched = watch();
  watched.worker.failed(refused);
  await watched.pass(1_999);
  assert.equal(watched.probes, 0);
  await watched.pass(1);
  assert.equal(watched.probes, 1);
  assert.ok(watched.worker.isEjected);
  for (const rest of [4_000, 8_000, 16_000, 32_000, 60_000]) await watched.pass(rest);
  assert.deepEqual(watched.rests, [2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000]);
  watched.answers = true;
  await watched.pass(60_000);
  assert.ok(!watched.worker.isEjected);
  assert.equal(watched.probes, 7);
  assert.deepEqual(watched.changes, ["ejected", "readmitted"]);
});

test("a readmitted worker is ejected after one failure, for twice as long", async () => {
  const watched = watch();
  watched.answers = true;
  watched.worker.failed(refused);
  await watched.pass(2_000);
  assert.ok(!watched.worker.isEjected);
  watched.worker.failed(broken);
  assert.deepEqual(watched.rests, [2_000, 4_000]);
});

test("a successful answer ends the cooldown and resets the failures", async () => {
  const watched = watch();
  watched.worker.failed(refused);
  await watched.pass(2_000);
  watched.worker.succeeded();
  assert.ok(!watched.worker.isEjected);
  await watched.pass(100_000);
  assert.equal(watched.probes, 1, "nobody asks one that is well");
  watched.worker.failed(refused);
  assert.deepEqual(watched.rests, [2_000, 4_000, 2_000]);
});

test("failures during the cooldown do not extend it", () => {
  const watched = watch();
  for (let n = 0; n < 9; n++) watched.worker.failed(refused);
  assert.deepEqual(watched.rests, [2_000]);
});

test("a probe is ignored if the worker was readmitted and ejected again meanwhile", async () => {
  const found = Promise.withResolvers<boolean>();
  const watched = watch(() => found.promise);
  watched.worker.failed(refused);
  await watched.pass(2_000);
  watched.worker.succeeded();
  watched.worker.failed(refused);
  found.resolve(true);
  await watched.pass(0);
  assert.ok(watched.worker.isEjected);
});

test("a closed worker is neither probed nor ejected", async () => {
  const watched = watch();
  watched.worker.failed(refused);
  watched.worker.close();
  await watched.pass(100_000);
  assert.equal(watched.probes, 0);
  const gone = watch();
  gone.worker.close();
  gone.worker.failed(refused);
  assert.ok(!gone.worker.isEjected);
});
