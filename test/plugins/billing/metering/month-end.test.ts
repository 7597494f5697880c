/** The division of months whose last charges are not on disk yet when the next month begins. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { readPurchasedDrawn } from "../../../../plugins/billing/metering/usage/folder-charges.ts";
import { readUsage } from "../../../../plugins/billing/metering/read-usage.ts";
import { charge, meterFixture, principalOf, take } from "./fixture.ts";

const february = Date.UTC(2026, 1);

/** 100 milli-CU are included, and 1,000 are purchased. */
function customer(includedMilliCu = 100): ReturnType<typeof principalOf> {
  return principalOf({ plan: { includedMilliCu }, workspace: { purchasedTotalMilliCu: 1_000 } });
}

for (const turns of [0, 1, 2]) {
  test(`charges that are written after the end of their month are divided with it (${turns} turns after the first charge)`, async (t) => {
    const fixture = meterFixture(t);
    const { clock } = fixture;
    const meter = await fixture.open();
    clock.advance(february - 1 - clock.now());
    const held = take(meter, customer(), 7);
    const settled = [charge(meter, customer(), 150)];
    for (let turn = 0; turn < turns; turn++) await new Promise(setImmediate);
    settled.push(charge(meter, customer(), 150));
    clock.advance(1_000);
    settled.push(charge(meter, customer(), 130));
    await Promise.all(settled);
    held.release();
    assert.equal(meter.purchasedLeft(customer().workspace), 1_000 - 200 - 30);
    const { periodStart, includedMilliCu, purchasedMilliCu } = meter.workspaceUsage("ws_1");
    assert.deepEqual([periodStart, includedMilliCu, purchasedMilliCu], [february, 100, 30]);
    await charge(meter, customer(), 20);
    assert.equal(meter.purchasedLeft(customer().workspace), 750);
    assert.equal(readPurchasedDrawn(fixture.dataDir).get("ws_1"), 250);
    assert.deepEqual(
      Array.from(readUsage(fixture.dataDir), (row) => row.purchasedMilliCu),
      [50, 150, 30, 20],
    );
    const again = await fixture.crashed().open();
    assert.deepEqual(again.workspaceUsage("ws_1"), meter.workspaceUsage("ws_1"));
    assert.equal(again.purchasedLeft(customer().workspace), 750);
  });
}

test("credit that a change of the plan gives back is no longer drawn", async (t) => {
  const fixture = meterFixture(t);
  const meter = await fixture.open();
  await charge(meter, customer(), 300);
  await charge(meter, customer(500), 1);
  assert.equal(meter.purchasedLeft(customer().workspace), 1_000);
  assert.equal(readPurchasedDrawn(fixture.dataDir).get("ws_1"), 0);
});
