/**
 * The lease protocol: replicas, one ledger and a bad network in random histories (`npm run model` runs more of them), and
 * one or two replicas message by message. The last test is of a gateway whose clock is not that of the ledger.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import * as fc from "fast-check";
import { LedgerLink } from "../../../../plugins/billing/leases/ledger-link.ts";
import { MemoryLedger } from "../../../../plugins/billing/leases/memory-ledger.ts";
import { LedgerReplica } from "../../../../plugins/billing/leases/replica.ts";
import { leaseMetrics } from "../../../../plugins/billing/metering/metrics.ts";
import { createMetrics } from "../../../../src/base/metrics.ts";
import type { Log } from "../../../../src/plugin.ts";
import { manualClock } from "../../../../src/testing/clock.ts";
import { histories, knownHistories, runHistory, runKnownHistory } from "./histories.ts";
import { mutants } from "./mutants.ts";
import { World } from "./world.ts";

/** 50 histories of up to 400 steps are about 14,000 steps. */
const numRuns = 50;

test("no failure of the network or of a replica exceeds a limit, or loses or doubles a charge", () => {
  const run = fc.property(histories("failing", 400), (steps) => {
    runHistory(steps, { replicas: 3 });
  });
  fc.assert(run, { numRuns, seed: 1, interruptAfterTimeLimit: 60_000 });
});

test("while nothing fails, a reservation is refused only if its credit was in use", () => {
  const run = fc.property(histories("ordinary", 250), (steps) => {
    const { counters } = runHistory(steps, { replicas: 3 });
    assert.equal(counters.unavailable, 0);
  });
  fc.assert(run, { numRuns, seed: 2, interruptAfterTimeLimit: 60_000 });
});

for (const [name, parts] of Object.entries(mutants)) {
  const history = knownHistories[name];
  if (history !== undefined) {
    test(`a certain history finds this mistake, and nothing is wrong without it: ${name}`, () => {
      runKnownHistory(history);
      assert.throws(() => runKnownHistory(history, parts), assert.AssertionError);
    });
    continue;
  }
  test(`the model finds this mistake: ${name}`, () => {
    const run = fc.property(histories("failing", 400), (steps) => {
      runHistory(steps, { replicas: 3, parts });
    });
    const { errorInstance } = fc.check(run, { numRuns: 200, seed: 7, endOnFailure: true });
    assert.ok(errorInstance instanceof assert.AssertionError, String(errorInstance));
  });
}

const included = {
  kind: "workspace",
  includedMilliCu: 600,
  purchasedMilliCu: 0,
  overageMilliCu: 0,
} as const;

/** A world in which all replicas are registered. Key 1 has no limits of its own, and its workspace is ws_1. */
function started(replicas: number): World {
  const world = new World({ replicas });
  world.flow(300);
  return world;
}

const lease = (world: World, scope: string, replica: number) =>
  world.ledger.scopes.get(scope)?.leases.get(replica);

test("a lease that nobody uses is given back after 30 seconds", () => {
  const world = started(1);
  world.reserve(0, 1, 100);
  world.flow(50);
  world.release(0, 0);
  world.pass(29_000, 250);
  assert.ok(lease(world, "ws_1", 1)!.granted > 0);
  world.pass(2_000, 250);
  assert.equal(lease(world, "ws_1", 1), undefined);
  world.pass(1_000, 250);
  assert.deepEqual(
    [...world.process(0).replica.credit.scopes],
    [],
    "the replica forgets the scope",
  );
  world.reserve(0, 1, 100);
  world.flow(50);
  assert.equal(world.process(0).open[0]?.reservation.state, "open");
  world.finish();
});

test("with busy replicas, a reservation is opened or refused soon, and nothing is unavailable", () => {
  const gateways = 6;
  const world = new World({ replicas: gateways });
  world.setLimits("ws_1", { ...included, includedMilliCu: 100_000 });
  // They do not ask for recalls at the same time.
  for (const process of world.processes) process.isPaused = true;
  for (const process of world.processes) {
    process.isPaused = false;
    world.flow(40);
  }
  let calls = 0;
  /** Every gateway makes a call of 5 milli-CU about 50 times per second, at different times. */
  const run = (ms: number): void => {
    for (let passed = 0; passed < ms; passed += 5) {
      const place = ++calls % gateways;
      world.reserve(place, 1, 5);
      world.flow(5);
      const [opened] = world
        .process(place)
        .open.filter(({ reservation }) => reservation.costMilliCu === 5);
      if (opened?.reservation.state === "open")
        world.settle(place, world.process(place).open.indexOf(opened), [100]);
    }
  };
  run(3_000);
  // The first one does not fit. The second one fits if the others give back their slack.
  for (const [costMilliCu, state] of [
    [100_001, "refused"],
    [90_000, "open"],
  ] as const) {
    world.reserve(0, 1, costMilliCu);
    const opened = world
      .process(0)
      .open.find(({ reservation }) => reservation.costMilliCu === costMilliCu);
    run(1_500);
    assert.equal(opened?.reservation.state, state);
  }
  assert.equal(world.counters.unavailable, 0);
});

test("a replica posts again what a restored ledger has lost, even if the ledger fences it afterwards", () => {
  const world = started(2);
  world.reserve(0, 1, 100);
  world.flow(50);
  world.restoreBefore(() => {
    world.settle(0, 0, [50]);
    world.flow(50);
  });
  assert.equal(world.charges.length, 0, "the charge is lost");
  // The replica is paused before it can notice that.
  world.process(0).isPaused = true;
  world.pass(12_000, 250);
  assert.equal(world.ledger.replicas.get(1)?.state, "fenced");
  world.process(0).isPaused = false;
  world.flow(600);
  assert.deepEqual(
    world.charges.map(({ costMilliCu }) => costMilliCu),
    [50],
  );
  world.finish();
});

test("charges behind a batch without a reply are given up after 5 seconds, and their credit is free", () => {
  const world = started(1);
  world.setLimits("ws_1", included);
  world.reserve(0, 1, 200);
  world.reserve(0, 1, 300);
  world.flow(50);
  world.settle(0, 0, [100]);
  world.send(0);
  world.settle(0, 0, [100]);
  const { replica } = world.process(0);
  for (let ms = 0; ms < 5_500; ms += 100) {
    world.now += 100;
    for (const message of replica.messages(world.now)) replica.failed(world.now, message);
  }
  assert.equal(replica.isAvailable(world.now), false);
  world.flow(600);
  assert.equal(replica.isAvailable(world.now), true);
  assert.deepEqual([world.counters.posted, world.counters.lost], [1, 1]);
  world.reserve(0, 1, 400);
  world.flow(100);
  assert.equal(world.process(0).open[0]?.reservation.state, "open");
  world.finish();
});

test("a thread waits for a ledger in its process that is busy, and not for one that cannot record charges", () => {
  const ledger = new MemoryLedger(() => 0);
  const replica = new LedgerReplica("thread 1", "settled", true);
  const account = {
    keyId: "key",
    keyLimits: undefined,
    workspaceId: "workspace",
    workspaceLimits: included,
    scopes: [],
  };
  const answer = (now: number): void => {
    for (const message of replica.messages(now)) {
      const { no, kind } = message;
      if (kind === "register") replica.receive(now, { no, kind, reply: ledger.register("one") });
      if (kind === "feed") replica.receive(now, { no, kind, reply: ledger.feed(message.replica) });
      if (kind === "lease")
        replica.receive(now, { no, kind, reply: ledger.lease(message.request) });
    }
  };
  answer(0);
  answer(0);
  for (let now = 0; now <= 9_000; now += 100) replica.messages(now);
  assert.equal(replica.isAvailable(9_000), true);
  const reservation = replica.reserve(9_000, account, 10);
  answer(9_000);
  assert.equal(reservation.state, "open");
  assert.equal(replica.isAvailable(20_000), false);
  answer(20_000);
  assert.equal(replica.isAvailable(20_000), true);
  for (const message of replica.messages(20_250)) replica.failed(20_250, message);
  assert.equal(replica.isAvailable(20_250), false);
});

test("a clock that differs by more than a second is logged once, and a single late reply is not", async () => {
  const clock = manualClock();
  let aheadMs = 0;
  const ledger = new MemoryLedger(() => clock.now() + aheadMs);
  const logged: [object, string][] = [];
  const keep = (fields: object, message: string): void => void logged.push([fields, message]);
  const log: Log = { debug: keep, info: keep, warn: keep, error: keep, child: () => log };
  const replica = new LedgerReplica("one", "settled");
  const metrics = leaseMetrics(createMetrics());
  const link = new LedgerLink({ ledger, replica, clock, log, metrics, place: "PostgreSQL" });
  await link.start();
  const feed = async (count: number): Promise<void> => {
    for (let n = 0; n < count; n++) {
      clock.advance(250);
      // The replies of the ledger in memory are handled in microtasks.
      await new Promise(setImmediate);
    }
  };
  await feed(1);
  aheadMs = 1_500;
  await feed(1);
  aheadMs = 900;
  await feed(5);
  assert.deepEqual(logged, []);
  aheadMs = 1_500;
  await feed(8);
  assert.deepEqual(logged, [
    [
      { offsetSeconds: 1.5 },
      "the clock of this host differs from that of PostgreSQL by more than a second",
    ],
  ]);
  aheadMs = 0;
  await feed(8);
  assert.deepEqual(logged.slice(1), [
    [{ offsetSeconds: 0 }, "the clock of this host agrees with that of PostgreSQL again"],
  ]);
  const closed = link.close();
  await feed(4);
  await closed;
});
