/** Tests of the algorithm that chooses a session's worker, also in a simulation of 8 workers that cache prompts. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Affinity } from "../../../../plugins/inference/networks/affinity.ts";
import { manualClock } from "../../../../src/testing/clock.ts";

interface FakeWorker {
  readonly id: string;
  inFlight: number;
  readonly isEjected: boolean;
}

function workers(count: number): FakeWorker[] {
  return Array.from({ length: count }, (_, at) => ({
    id: `worker-${at}`,
    inFlight: 0,
    isEjected: false,
  }));
}

describe("a session", () => {
  it("stays on its worker, also beside busier and idler ones, until it has paused for ten minutes", () => {
    const clock = manualClock();
    const affinity = new Affinity(clock);
    const all = workers(8);
    const home = affinity.choose("session", all);
    assert.ok(home !== undefined);
    home.inFlight = 3;
    assert.equal(affinity.choose("session", all), home);
    clock.advance(9 * 60_000);
    assert.equal(affinity.choose("session", all), home);
    // Forgotten, so the less busy one of the two candidates gets it.
    clock.advance(10 * 60_000);
    assert.notEqual(affinity.choose("session", all), home);
  });

  it("moves when its worker has half as many requests again as the mean, or is gone, and stays there", () => {
    const affinity = new Affinity(manualClock());
    const all = workers(8);
    const home = affinity.choose("session", all);
    for (const worker of all) worker.inFlight = worker === home ? 20 : 10;
    const next = affinity.choose("session", all);
    assert.notEqual(next, home);
    if (home !== undefined) home.inFlight = 10;
    assert.equal(affinity.choose("session", all), next);
    const rest = all.filter((worker) => worker !== next);
    assert.notEqual(affinity.choose("session", rest), next);
  });

  it("gets the same two candidates from two gateways", () => {
    const all = workers(8);
    for (let number = 0; number < 50; number++) {
      const key = `session ${number}`;
      const first = new Affinity(manualClock()).choose(key, all);
      assert.equal(new Affinity(manualClock()).choose(key, all), first);
    }
  });

  it("gets a worker that is not too busy if both candidates are", () => {
    const affinity = new Affinity(manualClock());
    const all = workers(8);
    const first = affinity.choose("session", all);
    const second = new Affinity(manualClock()).choose(
      "session",
      all.filter((worker) => worker !== first),
    );
    for (const worker of [first, second]) if (worker !== undefined) worker.inFlight = 100;
    const third = affinity.choose("session", all);
    assert.ok(third !== undefined && third.inFlight === 0);
  });
});

/** 600 sessions of ten turns, each of which repeats the prompt so far. Workers remember the sessions they served. */
function simulate(choose: (key: string, all: FakeWorker[]) => FakeWorker | undefined): {
  readonly cachedShare: number;
  readonly spread: number;
} {
  const all = workers(8);
  const cached = all.map(() => new Map<string, number>());
  const served = all.map(() => 0);
  const waiting: { at: number; key: string; turn: number }[] = [];
  const running: { until: number; worker: FakeWorker }[] = [];
  let tokens = 0;
  let hits = 0;
  // A linear congruential generator (Numerical Recipes), so that every run is the same.
  let state = 7;
  const random = (): number =>
    (state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0) / 2 ** 32;
  for (let session = 0; session < 600; session++) {
    waiting.push({ at: session * 12 + random() * 10, key: `s${session}`, turn: 0 });
  }
  while (waiting.length > 0) {
    waiting.sort((a, b) => b.at - a.at);
    const next = waiting.pop();
    if (next === undefined) break;
    for (const one of running.filter(({ until }) => until <= next.at)) {
      one.worker.inFlight--;
      running.splice(running.indexOf(one), 1);
    }
    const worker = choose(next.key, all);
    assert.ok(worker !== undefined);
    const at = all.indexOf(worker);
    const prompt = 10_000 + next.turn * 2_000;
    tokens += prompt;
    hits += cached[at]?.get(next.key) ?? 0;
    cached[at]?.set(next.key, prompt);
    served[at] = (served[at] ?? 0) + 1;
    worker.inFlight++;
    const took = 4 + random() * 8;
    running.push({ until: next.at + took, worker });
    if (next.turn < 9)
      waiting.push({ ...next, at: next.at + took + random() * 5, turn: next.turn + 1 });
  }
  const mean = served.reduce((sum, each) => sum + each, 0) / all.length;
  return { cachedShare: hits / tokens, spread: Math.max(...served) / mean };
}

it("8 workers have at least 95 % of the hits of one, and the busiest has at most 1.1 times the mean", () => {
  const affinity = new Affinity(manualClock());
  const one = simulate((_, all) => all[0]);
  const kept = simulate((key, all) => affinity.choose(key, all));
  assert.ok(kept.cachedShare >= 0.95 * one.cachedShare, JSON.stringify({ kept, one }));
  assert.ok(kept.spread <= 1.1, JSON.stringify(kept));
});
