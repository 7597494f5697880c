import assert from "node:assert/strict";
import { test } from "node:test";
import { chooseWorker } from "../../../../plugins/inference/networks/choose-worker.ts";
import { Worker } from "../../../../plugins/inference/networks/worker.ts";
import { manualClock } from "../../../../src/testing/clock.ts";
import { untakenRoute } from "./fake-route.ts";

const clock = manualClock();

/** Workers with so many requests in flight, named by their place. */
function workersWith(...inFlight: readonly number[]): Worker[] {
  return inFlight.map((requests, n) => {
    const listed = { id: `w${n}`, model: "m", coefficient: 1000, url: undefined } as const;
    const parts = { clock, onEjectionChange: () => {} };
    const worker = new Worker({ ...listed, state: "active" }, untakenRoute(), parts);
    worker.inFlight = requests;
    return worker;
  });
}

/** Draws these, in order. */
function drawing(...numbers: readonly number[]): () => number {
  let drawn = 0;
  return () => numbers[drawn++ % numbers.length] ?? 0;
}

const every = [0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.999_999];

test("the less busy of two workers is chosen, whichever is drawn first", () => {
  const workers = workersWith(3, 2);
  for (const random of every) {
    assert.equal(chooseWorker(workers, [], () => random)?.id, "w1");
  }
});

test("two different workers are drawn, and every worker can be drawn", () => {
  const idle = workersWith(0, 0, 0, 0, 0);
  const busiest = workersWith(0, 0, 9, 0, 0);
  const taken = new Set<string | undefined>();
  for (const first of every) {
    for (const second of every) {
      taken.add(chooseWorker(idle, [], drawing(first, second))?.id);
      // Drawn with any other it loses; drawn with itself it would be taken.
      assert.notEqual(chooseWorker(busiest, [], drawing(first, second))?.id, "w2");
    }
  }
  assert.deepEqual(taken, new Set(["w0", "w1", "w2", "w3", "w4"]));
});

test("the worker that is drawn first is chosen if both are equally busy", () => {
  const workers = workersWith(1, 1, 1);
  assert.equal(chooseWorker(workers, [], drawing(0.4, 0))?.id, "w1");
});

test("a worker that was tried is not chosen again", () => {
  const [first, second, third] = workersWith(0, 5, 0);
  assert.ok(first && second && third);
  const workers = [first, second, third];
  for (const random of every) {
    assert.equal(
      chooseWorker(workers, [first, third], () => random),
      second,
    );
  }
  assert.equal(
    chooseWorker(workers, workers, () => 0),
    undefined,
  );
  assert.equal(
    chooseWorker([], [], () => 0),
    undefined,
  );
});

test("an ejected worker is chosen only if no other is left", () => {
  const [resting, busy] = workersWith(0, 50);
  assert.ok(resting && busy);
  resting.failed(true);
  for (const random of every) {
    assert.equal(
      chooseWorker([resting, busy], [], () => random),
      busy,
    );
    assert.equal(
      chooseWorker([resting, busy], [busy], () => random),
      resting,
    );
  }
  resting.close();
});
