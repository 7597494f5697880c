/** Random histories of the lease protocol, made by fast-check and run in a world. */
import assert from "node:assert/strict";
import * as fc from "fast-check";
import { unlimitedMilliCu } from "../../../../plugins/billing/leases/ledger.ts";
import { World, type Parts, type WorldOptions } from "./world.ts";

const place = fc.nat({ max: 3 });
const which = fc.nat({ max: 9 });
const key = fc.nat({ max: 2 });
const cost = fc.oneof(fc.integer({ min: 0, max: 40 }), fc.integer({ min: 0, max: 400 }));
const shares = fc.array(fc.integer({ min: 0, max: 60 }), { maxLength: 2 });
const ms = fc.constantFrom(1, 5, 20, 50, 100, 250);

const record = <Name extends string, Fields extends object>(
  what: Name,
  fields: fc.Arbitrary<Fields>,
) => fields.map((values) => ({ what, ...values }));

const weighted = <T>(weight: number, arbitrary: fc.Arbitrary<T>) => ({ weight, arbitrary });

const ordinary = [
  weighted(20, record("reserve", fc.record({ place, key, cost }))),
  weighted(16, record("settle", fc.record({ place, which, shares }))),
  weighted(6, record("release", fc.record({ place, which }))),
  weighted(8, record("deliver", fc.record({ which, keep: fc.constant(false) }))),
  weighted(14, record("flow", fc.record({ ms: fc.constantFrom(5, 10, 20, 50, 100, 300) }))),
  weighted(1, record("pass", fc.record({ ms: fc.constantFrom(2_000, 40_000) }))),
  weighted(1, record("month", fc.constant({}))),
] as const;

const failing = [
  ...ordinary,
  weighted(4, record("deliver", fc.record({ which, keep: fc.constant(true) }))),
  weighted(4, record("lose", fc.record({ which }))),
  weighted(2, record("force", fc.record({ place, key, cost }))),
  weighted(1, record("crash", fc.record({ place }))),
  weighted(2, record("pause", fc.record({ place }))),
  weighted(6, record("resume", fc.record({ place }))),
  weighted(1, record("silence", fc.record({ place }))),
  weighted(2, record("limit", fc.record({ key, amount: fc.integer({ min: 0, max: 900 }) }))),
  weighted(10, record("exchange", fc.record({ place }))),
  weighted(10, record("send", fc.record({ place }))),
  weighted(20, record("deliver", fc.record({ which, keep: fc.constant(false) }))),
  weighted(6, record("wait", fc.record({ ms }))),
  weighted(1, record("wait", fc.record({ ms: fc.constantFrom(3_600_000, 86_400_000) }))),
] as const;

type StepOf<T extends readonly { readonly arbitrary: fc.Arbitrary<unknown> }[]> =
  T[number]["arbitrary"] extends fc.Arbitrary<infer Value> ? Value : never;
type Step = StepOf<typeof failing>;

export function histories(
  kind: "ordinary" | "failing",
  length: number,
): fc.Arbitrary<readonly Step[]> {
  const step: fc.Arbitrary<Step> =
    kind === "ordinary" ? fc.oneof(...ordinary) : fc.oneof(...failing);
  return fc.array(step, { minLength: length / 2, maxLength: length, size: "max" });
}

/** Runs a history and checks the invariants after each step, and at the end that nothing remains. */
export function runHistory(steps: readonly Step[], options: WorldOptions): World {
  const world = new World(options);
  for (const each of steps) {
    runStep(world, each);
    world.check();
  }
  world.finish();
  return world;
}

/** Histories that random steps hardly ever contain, by the mistake that they show. */
export const knownHistories: Readonly<Record<string, (world: World) => void>> = {
  "requests that wait refuse each other": (world) => {
    world.flow(100);
    // Each of them fits in the limit of 400, but not both.
    world.reserve(0, 0, 300);
    world.reserve(1, 0, 300);
    world.flow(300);
    assert.deepEqual([world.counters.refused, world.counters.unavailable], [1, 0]);
  },
};

export function runKnownHistory(history: (world: World) => void, parts?: Parts): void {
  const world = new World({ replicas: 2, ...(parts !== undefined && { parts }) });
  history(world);
  world.finish();
}

function runStep(world: World, step: Step): void {
  switch (step.what) {
    case "reserve":
      return world.reserve(step.place, step.key, step.cost);
    case "force":
      return world.reserve(step.place, step.key, step.cost, true);
    case "settle":
      return world.settle(step.place, step.which, step.shares);
    case "release":
      return world.release(step.place, step.which);
    case "exchange":
      return world.exchange(step.place);
    case "send":
      return world.send(step.place);
    case "deliver":
      return world.deliver(step.which, step.keep);
    case "lose":
      return world.lose(step.which);
    case "crash":
      return world.crash(step.place % world.processes.length);
    case "pause":
      world.process(step.place).isPaused = true;
      return;
    case "resume":
      world.process(step.place).isPaused = false;
      return;
    case "silence":
      world.process(step.place).isPaused = true;
      world.pass(12_000, 500);
      world.process(step.place).isPaused = false;
      return;
    case "flow":
      return world.flow(step.ms);
    case "pass":
      // All that wait are answered first. Otherwise the long steps would let them wait for too long.
      world.flow(600);
      return world.pass(step.ms, 500);
    case "limit":
      return step.key === 0
        ? world.setLimits("key_a", { kind: "key", dayMilliCu: step.amount, monthMilliCu: 900 })
        : world.setLimits("ws_2", {
            kind: "workspace",
            includedMilliCu: step.amount,
            purchasedMilliCu: 100,
            overageMilliCu: step.amount % 2 === 0 ? 0 : unlimitedMilliCu,
          });
    case "month":
      world.flow(600);
      world.now += world.untilNextMonth - 50;
      return;
    case "wait":
      world.now += step.ms;
      return;
  }
}
