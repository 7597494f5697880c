/** Random sequences of reservations and crashes, compared with a model that keeps a list. */
import assert from "node:assert/strict";
import { test } from "node:test";
import * as fc from "fast-check";
import type { KeyPrincipal, Reservation } from "sluice-gateway/services";
import {
  about,
  day,
  keyUsage,
  hour,
  line,
  meterFixture,
  minute,
  principalOf,
  type Meter,
  type MeterFixture,
} from "./fixture.ts";

const dayLimit = 400;
const included = 700;
const bought = 300;

const principals: readonly KeyPrincipal[] = ["key_a", "key_b"].map((id) =>
  principalOf({
    key: { id, cuLimit24hMilli: dayLimit },
    plan: { includedMilliCu: included },
    workspace: { purchasedTotalMilliCu: bought },
  }),
);

const pick = fc.nat({ max: 99 });
const step = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      what: fc.constant("reserve" as const),
      key: fc.nat({ max: 1 }),
      cost: fc.integer({ min: 0, max: 120 }),
      streamed: fc.boolean(),
    }),
  },
  {
    weight: 5,
    arbitrary: fc.record({
      what: fc.constant("settle" as const),
      which: pick,
      // At most the reserved amount, because more would be cut.
      shares: fc.array(fc.integer({ min: 0, max: 100 }), { minLength: 0, maxLength: 3 }),
    }),
  },
  { weight: 2, arbitrary: fc.record({ what: fc.constant("release" as const), which: pick }) },
  { weight: 2, arbitrary: fc.record({ what: fc.constant("flush" as const) }) },
  {
    weight: 2,
    arbitrary: fc.record({
      what: fc.constant("wait" as const),
      ms: fc.constantFrom(minute, hour, 9 * hour, day, 17 * day),
    }),
  },
  { weight: 1, arbitrary: fc.record({ what: fc.constant("crash" as const) }) },
);

interface Held {
  readonly reservation: Reservation;
  readonly key: number;
  readonly cost: number;
  readonly id: string;
}

class Model {
  readonly charges: { id: string; key: number; at: number; cost: number }[] = [];
  open: Held[] = [];

  usedInWindow(key: number, now: number, stepMs: number, windowMs: number): number {
    return this.charges
      .filter(
        (each) => each.key === key && (Math.floor(each.at / stepMs) + 1) * stepMs > now - windowMs,
      )
      .reduce((sum, each) => sum + each.cost, 0);
  }

  openOf(key: number): number {
    return this.open.filter((held) => held.key === key).reduce((sum, held) => sum + held.cost, 0);
  }

  /** Credit of the workspace that is neither drawn nor reserved. */
  planLeft(now: number): number {
    let purchased = bought;
    let left = included;
    let month = "";
    for (const each of this.charges) {
      const of = new Date(each.at).toISOString().slice(0, 7);
      if (of !== month) left = included;
      month = of;
      const fromIncluded = Math.min(left, each.cost);
      left -= fromIncluded;
      purchased -= each.cost - fromIncluded;
    }
    if (new Date(now).toISOString().slice(0, 7) !== month) left = included;
    return left + purchased - this.openOf(0) - this.openOf(1);
  }

  fits(key: number, cost: number, now: number): boolean {
    const used = this.usedInWindow(key, now, minute, day) + this.openOf(key);
    return used + cost <= dayLimit && cost <= this.planLeft(now);
  }
}

/** `isWritten`: true if all charges are on disk. Until then, they count as open. */
function check(meter: Meter, model: Model, now: number, isWritten: boolean): void {
  for (const [key, principal] of principals.entries()) {
    const { dayMilliCu, monthMilliCu, openMilliCu } = keyUsage(meter, principal.key.id);
    const [modelDay, modelMonth, modelOpen] = [
      model.usedInWindow(key, now, minute, day),
      model.usedInWindow(key, now, hour, 30 * day),
      model.openOf(key),
    ];
    assert.deepEqual(
      [dayMilliCu + openMilliCu, monthMilliCu + openMilliCu],
      [modelDay + modelOpen, modelMonth + modelOpen],
    );
    if (isWritten) assert.equal(openMilliCu, modelOpen);
    assert.ok(model.usedInWindow(key, now, minute, day) + model.openOf(key) <= dayLimit);
  }
  assert.ok(model.planLeft(now) >= 0);
  const { openMilliCu } = meter.workspaceUsage("ws_1");
  if (isWritten) assert.equal(openMilliCu, model.openOf(0) + model.openOf(1));
}

function compareRows(fixture: MeterFixture, model: Model): void {
  const rows = fixture.rows().map((row) => [row.requestId, row.time, row.usedMilliCu]);
  assert.deepEqual(
    rows,
    model.charges.map((each) => [each.id, each.at, each.cost]),
  );
}

test("no sequence of operations leaks credit or exceeds a limit", async (t) => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 20, maxLength: 70 }), async (steps) => {
      let fixture = meterFixture(t);
      const { clock } = fixture;
      let meter = await fixture.open();
      const model = new Model();
      const settling: Promise<void>[] = [];
      for (const [n, each] of steps.entries()) {
        const now = clock.now();
        if (each.what === "reserve") {
          const { key, cost, streamed } = each;
          const taken = meter.reserve(principals[key]!, cost, {
            ...about,
            requestId: `${n}`,
            streamed,
          });
          assert.equal(
            taken.kind,
            cost === 0 || model.fits(key, cost, now) ? "reserved" : "refused",
          );
          if (taken.kind === "reserved")
            model.open.push({ reservation: taken, key, cost, id: `${n}` });
        } else if (each.what === "settle" || each.what === "release") {
          const [held] = model.open.splice(each.which % Math.max(1, model.open.length), 1);
          if (held === undefined) continue;
          if (each.what === "release") held.reservation.release();
          else {
            const costs = each.shares.map((share) => Math.floor((held.cost * share) / 300));
            settling.push(held.reservation.settle(costs.map(line)));
            for (const cost of costs)
              model.charges.push({ id: held.id, key: held.key, at: now, cost });
          }
        } else if (each.what === "flush") await Promise.all(settling);
        else if (each.what === "wait") {
          // A commit does not take so long.
          await Promise.all(settling);
          clock.advance(each.ms);
        } else {
          await Promise.all(settling);
          fixture = fixture.crashed();
          await meter.close();
          meter = await fixture.open();
          model.open = [];
        }
        check(meter, model, clock.now(), ["flush", "wait", "crash"].includes(each.what));
      }
      await Promise.all(settling);
      compareRows(fixture, model);
      await meter.close();
    }),
    { numRuns: 25 },
  );
});
