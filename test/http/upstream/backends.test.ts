/** Tests of the algorithm that chooses among backends, and of the state machine that ejects them. */
import assert from "node:assert/strict";
import { test, describe, it } from "node:test";
import {
  randomSampler,
  chooseBackend,
  type Backend,
} from "../../../src/http/upstream/choose-backend.ts";
import { Ejection, type EjectionPolicy } from "../../../src/http/upstream/ejection.ts";
import { manualClock } from "../../../src/testing/clock.ts";

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

const choose = (
  backends: readonly Named[],
  random: number,
  tried?: readonly Named[],
): Named | undefined =>
  chooseBackend(
    backends,
    randomSampler(() => random),
    tried,
  );

const every = [0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.999_999];

test("of two backends, the less busy one is chosen, whichever is drawn first", () => {
  const backends = withRequests(3, 2);
  for (const random of every) {
    assert.equal(choose(backends, random)?.id, "b1");
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
    assert.equal(choose(backends, random, [first, third]), second);
  }
  assert.equal(choose(backends, 0, backends), undefined);
  assert.equal(choose([], 0, []), undefined);
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

const policy: EjectionPolicy = {
  failures: 2,
  failuresAfterReturn: 1,
  firstMs: 1_000,
  maxMs: 3_000,
  jitter: 0,
};

function watch() {
  const clock = manualClock();
  const probedAt: number[] = [];
  const startedAt = clock.monotonic();
  const ejection = new Ejection(policy, clock, () => {
    probedAt.push(clock.monotonic() - startedAt);
  });
  return { clock, ejection, probedAt };
}

describe("an ejection", () => {
  it("happens after several failures in a row, or after a single certain one", () => {
    const { ejection } = watch();
    assert.equal(ejection.failed(), false);
    ejection.succeeded();
    assert.equal(ejection.failed(), false);
    assert.equal(ejection.failed(), true);
    assert.equal(watch().ejection.failed(true), true);
  });

  it("ends with a good probe; each bad one doubles the cooldown, up to the maximum", () => {
    const { clock, ejection, probedAt } = watch();
    ejection.eject({ kind: "refused" });
    for (const ms of [1_000, 2_000, 3_000]) {
      clock.advance(ms);
      assert.equal(ejection.probed(false), false);
    }
    clock.advance(3_000);
    assert.deepEqual(probedAt, [1_000, 3_000, 6_000, 9_000]);
    assert.equal(ejection.probed(true), true);
    assert.equal(ejection.isEjected, false);
    assert.equal(ejection.failed(), true, "after a return, one failure is enough");
  });

  it("lasts twice as long soon after the last one, and as long as the first one later", () => {
    const { clock, ejection, probedAt } = watch();
    ejection.eject({ kind: "refused" });
    clock.advance(1_000);
    ejection.probed(true);
    ejection.eject({ kind: "refused" });
    clock.advance(2_000);
    ejection.probed(true);
    clock.advance(3_000);
    ejection.eject({ kind: "refused" });
    clock.advance(1_000);
    assert.deepEqual(probedAt, [1_000, 3_000, 7_000]);
  });

  it("ends with an answer, but not with a probe that is reported during the cooldown", () => {
    const { ejection } = watch();
    ejection.eject({ kind: "refused" });
    assert.equal(ejection.probed(true), false);
    assert.equal(ejection.succeeded(), true);
    assert.equal(ejection.succeeded(), false);
  });

  it("neither begins nor is probed after it was closed", () => {
    const { clock, ejection, probedAt } = watch();
    ejection.eject({ kind: "refused" });
    ejection.close();
    clock.advance(10_000);
    assert.deepEqual(probedAt, []);
    ejection.succeeded();
    ejection.eject({ kind: "refused" });
    assert.equal(ejection.isEjected, false);
  });
});
