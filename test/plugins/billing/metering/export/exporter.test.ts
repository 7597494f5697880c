/** Tests of the state machine of the export of charges, with a manual clock, and a journal and a sink in memory. */
import assert from "node:assert/strict";
import { setImmediate as turn } from "node:timers/promises";
import { after as afterTests, before, describe, it, mock } from "node:test";
import {
  Exporter,
  type Batch,
  type ExporterDeps,
  exportMetrics,
} from "../../../../../plugins/billing/metering/export/exporter.ts";
import type { DeliveryResult } from "../../../../../plugins/billing/metering/export/send.ts";
import { createMetrics } from "../../../../../src/base/metrics.ts";
import { keepingLog } from "../../../../../src/testing/keeping-log.ts";
import { manualClock } from "../../../../../src/testing/clock.ts";
import { day, hour, minute, noon } from "../fixture.ts";

const accepted: DeliveryResult = { kind: "accepted" };
const down: DeliveryResult = { kind: "unavailable", reason: "ECONNREFUSED", afterMs: 0 };

const random = mock.fn(() => 1);
before(() => void mock.method(Math, "random", random));
afterTests(() => mock.restoreAll());

interface Options {
  readonly batch?: number;
  readonly charges?: number;
  readonly moveTo?: (id: string) => Promise<void>;
  readonly sink: (charges: readonly number[], now: number) => DeliveryResult;
}

/** Makes an exporter over a journal of numbers. The number of a charge is its position. */
function bench({ batch = 3, charges: atStart = 1, moveTo, sink }: Options) {
  const clock = manualClock(noon);
  const journal: { readonly at: number }[] = [];
  const taken: number[] = [];
  const attempts: { readonly at: number; readonly charges: readonly number[] }[] = [];
  const lines: string[] = [];
  const log = keepingLog(lines);
  const metrics = createMetrics();
  const cursor = { after: undefined as string | undefined, isOurs: true };
  const deps: ExporterDeps = {
    cursor: {
      take: async () => (cursor.isOurs ? { after: cursor.after } : undefined),
      async moveTo(id) {
        cursor.after = id;
        await moveTo?.(id);
      },
      release: async () => {},
    },
    async read({ after, limit }) {
      const from = after === undefined ? 0 : Number(after) + 1;
      const charges = journal.slice(from, from + limit);
      const [first] = charges;
      if (first === undefined) return undefined;
      const numbers = charges.map((_, at) => from + at);
      const head: Omit<Batch, "events"> = {
        count: charges.length,
        first: String(from),
        last: String(from + charges.length - 1),
        since: first.at,
        more: journal.length > from + charges.length,
      };
      return { ...head, events: Buffer.from(JSON.stringify(numbers)) };
    },
    async send(events) {
      // The code above writes this value.
      const charges = JSON.parse(Buffer.from(events).toString()) as number[];
      attempts.push({ at: clock.now() - noon, charges });
      const sent = sink(charges, clock.now());
      if (sent.kind === "accepted") taken.push(...charges);
      return sent;
    },
    batch,
    everyMs: 5_000,
    clock,
    log,
    metrics: exportMetrics(metrics),
  };
  const settle = async (): Promise<void> => {
    for (let n = 0; n < 30; n++) await turn();
  };
  const charge = (count: number): void => {
    for (let n = 0; n < count; n++) journal.push({ at: clock.now() });
  };
  charge(atStart);
  const exporter = new Exporter(deps);
  return {
    taken,
    attempts,
    lines,
    charge,
    settle,
    /** Another gateway delivers the charges from now on. */
    loseDelivery(): void {
      cursor.isOurs = false;
    },
    /** Moves the clock in steps, so that pending work can run in between. */
    async pass(ms: number, stepMs = ms): Promise<void> {
      for (let passed = 0; passed < ms; passed += stepMs) {
        clock.advance(Math.min(stepMs, ms - passed));
        await settle();
      }
    },
    async metric(name: string): Promise<number> {
      const text = await metrics.render();
      return Number(text.match(new RegExp(`^sluice_usage_export_${name} (.*)$`, "m"))?.[1]);
    },
    [Symbol.asyncDispose]: () => exporter.close(),
  };
}

const upTo = (count: number): number[] => Array.from({ length: count }, (_, n) => n);

describe("the export of usage", () => {
  it("loses nothing while the sink is down for a day, backs off exponentially, and reports the lag", async () => {
    await using on = bench({
      sink: (_, now) => (now < noon + day ? down : accepted),
      batch: 100,
    });
    for (let hours = 0; hours < 24; hours++) {
      on.charge(40);
      await on.pass(hour, minute);
    }
    assert.deepEqual(on.taken, []);
    assert.ok((await on.metric("lag_seconds")) > 86_000);
    assert.equal(await on.metric("stopped"), 0);
    const waits = on.attempts.map(({ at }, n) => at - (on.attempts[n - 1]?.at ?? 0)).slice(1, 8);
    assert.deepEqual(waits.slice(0, 1), [minute]);
    const late = on.attempts.map(({ at }) => at).slice(-2);
    assert.equal((late[1] ?? 0) - (late[0] ?? 0), 5 * minute);
    assert.ok(on.attempts.length < 310);
    await on.pass(5 * minute);
    assert.deepEqual(on.taken, upTo(24 * 40 + 1));
    assert.equal(await on.metric("lag_seconds"), 0);
    const logged = on.lines.filter((line) => line.startsWith("usage"));
    assert.deepEqual(
      logged.map((line) => line.split(" {")[0]),
      ["usage export: delivery failed; trying again", "usage export: delivery works again"],
    );
  });

  it("waits a random time that is at least as long as the sink asks for", async () => {
    const draws = [0.5, 0, 0.25];
    const asked: DeliveryResult = { kind: "unavailable", reason: "status 429", afterMs: 7_000 };
    random.mock.mockImplementation(() => draws.shift() ?? 1);
    await using on = bench({ sink: () => asked });
    await on.settle();
    for (const ms of [7_500, 7_000, 8_000]) {
      const earlier = on.attempts.length;
      await on.pass(ms - 1);
      assert.equal(on.attempts.length, earlier, `${ms} too early`);
      await on.pass(1);
      assert.equal(on.attempts.length, earlier + 1, `${ms}`);
    }
  });

  it("finds the refused charge, delivers all charges before it, and stops until it is accepted", async () => {
    let poison: number | undefined = 13;
    await using on = bench({
      batch: 8,
      charges: 21,
      sink: (charges) =>
        poison !== undefined && charges.includes(poison)
          ? { kind: "refused", status: 422, smaller: true }
          : accepted,
    });
    await on.settle();
    assert.deepEqual(on.taken, upTo(13));
    assert.equal(await on.metric("stopped"), 1);
    const logged = on.lines.filter((line) => line.includes("has stopped"));
    assert.deepEqual(logged, [
      'usage export has stopped: the sink refuses the charges {"status":422,"charge":"13"}',
    ]);
    await on.pass(hour, minute);
    assert.deepEqual(on.taken, upTo(13));
    assert.ok((await on.metric("lag_seconds")) >= 3_600);
    poison = undefined;
    await on.pass(10 * minute);
    assert.deepEqual(on.taken, upTo(21));
    assert.equal(await on.metric("stopped"), 0);
  });

  it("no longer shows that it has stopped when another gateway delivers the charges", async () => {
    await using on = bench({ sink: () => ({ kind: "refused", status: 401, smaller: false }) });
    await on.settle();
    assert.equal(await on.metric("stopped"), 1);
    on.loseDelivery();
    await on.pass(10 * minute);
    assert.equal(await on.metric("stopped"), 0);
    assert.equal(await on.metric("lag_seconds"), 0);
  });

  it("sends nothing twice while it runs, even if the cursor cannot be saved", async () => {
    await using on = bench({
      charges: 6,
      sink: () => accepted,
      moveTo: () => Promise.reject(new Error("disk full")),
    });
    await on.settle();
    assert.deepEqual(on.taken, upTo(6));
    assert.ok(on.lines.some((line) => line.startsWith("usage export: cannot save the position")));
  });
});
