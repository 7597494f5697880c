import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import { setImmediate as turn } from "node:timers/promises";
import type { Batch } from "../../../../plugins/billing/shipping/batch.ts";
import type {
  PostResult,
  RegisterResult,
} from "../../../../plugins/billing/shipping/charge-store.ts";
import { shippingMetrics } from "../../../../plugins/billing/shipping/metrics.ts";
import { Shipper } from "../../../../plugins/billing/shipping/shipper.ts";
import { createMetrics, type RenderedMetrics } from "../../../../src/metrics.ts";
import type { Log } from "../../../../src/plugin.ts";
import { manualClock, type ManualClock } from "../../../../src/testing/clock.ts";

interface Fixture {
  readonly clock: ManualClock;
  readonly metrics: RenderedMetrics;
  readonly logged: string[];
  /** `first-last` of each batch that was sent, and `register` and `leave`. */
  readonly calls: string[];
  /** Number of the last commit of the journal. */
  journal: number;
  /** Answers to the next batches. Without one, a batch is posted. */
  readonly answers: (PostResult | Error)[];
  registered: RegisterResult;
  readonly shipper: Shipper;
  /** Runs what is ready, then moves the clock. */
  advance(ms: number): Promise<void>;
}

const registration = { replica: 1, start: 1 };

function start(t: TestContext): Fixture {
  const clock = manualClock();
  const began = clock.now();
  const metrics = createMetrics();
  const logged: string[] = [];
  const add = (_: object, message: string): void => void logged.push(message);
  const log: Log = { debug: add, info: add, warn: add, error: add, child: () => log };
  const calls: string[] = [];
  const fixture = {
    clock,
    metrics,
    logged,
    calls,
    journal: 0,
    answers: [] as (PostResult | Error)[],
    registered: { kind: "registered", registration, posted: 0 } as RegisterResult,
    async advance(ms: number) {
      await settle();
      clock.advance(ms);
      await settle();
    },
  };
  const shipper = new Shipper({
    clock,
    log,
    metrics: shippingMetrics(metrics),
    first: { kind: "registered", registration, posted: 0 },
    read: (after) =>
      Promise.resolve(
        fixture.journal > after ? batchOf(after + 1, fixture.journal, began) : undefined,
      ),
    store: {
      register() {
        calls.push("register");
        return Promise.resolve(fixture.registered);
      },
      post(_, { first, last }) {
        calls.push(`${first}-${last}`);
        const answer = fixture.answers.shift() ?? { kind: "posted", posted: last };
        return answer instanceof Error ? Promise.reject(answer) : Promise.resolve(answer);
      },
      leave() {
        calls.push("leave");
        return Promise.resolve();
      },
    },
  });
  t.after(() => shipper.close());
  return Object.assign(fixture, { shipper });
}

function batchOf(first: number, last: number, since: number): Batch {
  const rows = Buffer.from("[]");
  return { first, last, count: last - first + 1, since, more: false, check: undefined, rows };
}

async function settle(): Promise<void> {
  for (let i = 0; i < 20; i++) await turn();
}

function failure(isRefused: boolean, code: string): Error {
  return Object.assign(new Error(code), { isRefused, code });
}

test("new commits are sent within 100 ms, and an idle gateway reports every 2 s", async (t) => {
  const fixture = start(t);
  fixture.journal = 3;
  await fixture.advance(100);
  assert.deepEqual(fixture.calls, ["1-3"]);
  for (let ms = 0; ms < 2_000; ms += 100) await fixture.advance(100);
  assert.deepEqual(fixture.calls, ["1-3", "4-3"]);
});

test("an unknown outcome is resolved by the position of the database", async (t) => {
  const fixture = start(t);
  fixture.journal = 2;
  // The first answer is lost although the batch was committed. Then the journal grows.
  fixture.answers.push(failure(false, "ECONNRESET"), { kind: "moved", posted: 2 });
  await fixture.advance(100);
  fixture.journal = 5;
  await fixture.advance(100);
  assert.deepEqual(fixture.calls, ["1-2", "1-5", "3-5"]);
  assert.deepEqual(fixture.logged, []);
});

test("a failure is tried again after a growing wait, at most 2 s, and logged once", async (t) => {
  const fixture = start(t);
  fixture.journal = 1;
  for (let n = 0; n < 8; n++) fixture.answers.push(failure(false, "ECONNREFUSED"));
  for (const ms of [100, 100, 200, 400, 800, 1_600, 2_000, 2_000]) await fixture.advance(ms);
  assert.equal(fixture.calls.length, 8);
  assert.deepEqual(fixture.logged, ["charges cannot be copied to PostgreSQL; trying again"]);
  await fixture.advance(1_000);
  assert.match(await fixture.metrics.render(), /sluice_ship_lag_seconds [1-9]/);
  await fixture.advance(1_000);
  assert.equal(fixture.calls.length, 9);
  assert.equal(fixture.logged.at(-1), "charges are copied to PostgreSQL again");
  assert.match(await fixture.metrics.render(), /sluice_ship_lag_seconds 0\n/);
});

test("a refusal by the database stops the copy visibly and never skips a charge", async (t) => {
  const fixture = start(t);
  fixture.journal = 1;
  fixture.answers.push(failure(true, "22P02"), failure(true, "22P02"));
  await fixture.advance(100);
  assert.match(await fixture.metrics.render(), /sluice_ship_stopped 1\n/);
  await fixture.advance(10_000);
  assert.equal(fixture.logged.length, 1);
  await fixture.advance(10_000);
  assert.deepEqual(fixture.calls, ["1-1", "1-1", "1-1"]);
  assert.match(await fixture.metrics.render(), /sluice_ship_stopped 0\n/);
});

test("a replica that counts as ended registers again and continues at the given position", async (t) => {
  const fixture = start(t);
  fixture.journal = 4;
  fixture.answers.push({ kind: "posted", posted: 4 }, { kind: "silent" });
  await fixture.advance(100);
  fixture.journal = 6;
  fixture.registered = { kind: "registered", registration, posted: 4 };
  await fixture.advance(100);
  assert.deepEqual(fixture.calls, ["1-4", "5-6", "register", "5-6"]);
});

test("closing sends what is left, then leaves", async (t) => {
  const fixture = start(t);
  await fixture.advance(100);
  fixture.journal = 2;
  await fixture.shipper.close();
  assert.deepEqual(fixture.calls, ["1-2", "leave"]);
});

test("closing does not wait for a database that does not answer", async (t) => {
  const fixture = start(t);
  fixture.journal = 1;
  fixture.answers.push(failure(false, "ETIMEDOUT"));
  await settle();
  await fixture.shipper.close();
  assert.deepEqual(fixture.calls.at(-1), "leave");
});
