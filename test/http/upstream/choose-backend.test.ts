import assert from "node:assert/strict";
import { test } from "node:test";
import {
  randomSampler,
  chooseBackend,
  type Backend,
} from "../../../src/http/upstream/choose-backend.ts";

interface Named extends Backend {
  readonly id: string;
}

function withRequests(...inFlight: readonly number[]): Named[] {
  return inFlight.map((requests, n) => ({ id: `b${n}`, inFlight: requests, isEjected: false }));
}

function drawing(...numbers: readonly number[]): () => number {
  let drawn = 0;
  return () => numbers[drawn++ % numbers.length] ?? 0;
}

const every = [0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.999_999];

test("of two backends, the less busy one is chosen, whichever is drawn first", () => {
  const backends = withRequests(3, 2);
  for (const random of every) {
    assert.equal(
      chooseBackend(
        backends,
        randomSampler(() => random),
      )?.id,
      "b1",
    );
  }
});

test("two different backends are drawn, and each can be chosen", () => {
  const idle = withRequests(0, 0, 0, 0, 0);
  const busiest = withRequests(0, 0, 9, 0, 0);
  const taken = new Set<string | undefined>();
  for (const first of every) {
    for (const second of every) {
      taken.add(chooseBackend(idle, randomSampler(drawing(first, second)))?.id);
      // It loses against any other backend, so it would be chosen only if it was drawn twice.
      assert.notEqual(chooseBackend(busiest, randomSampler(drawing(first, second)))?.id, "b2");
    }
  }
  assert.deepEqual(taken, new Set(["b0", "b1", "b2", "b3", "b4"]));
});

test("a backend that was tried is not chosen again", () => {
  const [first, second, third] = withRequests(0, 5, 0);
  assert.ok(first && second && third);
  const backends = [first, second, third];
  for (const random of every) {
    assert.equal(
      chooseBackend(
        backends,
        randomSampler(() => random),
        [first, third],
      ),
      second,
    );
  }
  assert.equal(
    chooseBackend(
      backends,
      randomSampler(() => 0),
      backends,
    ),
    undefined,
  );
  assert.equal(
    chooseBackend(
      [],
      randomSampler(() => 0),
      [],
    ),
    undefined,
  );
});

test("an ejected backend is chosen only if no other is left", () => {
  const [ejected, busy] = withRequests(0, 50).map((one, n) => ({ ...one, isEjected: n === 0 }));
  assert.ok(ejected && busy);
  for (const random of every) {
    const draw = randomSampler(() => random);
    assert.equal(chooseBackend([ejected, busy], draw), busy);
    assert.equal(chooseBackend([ejected, busy], draw, [busy]), ejected);
  }
});
