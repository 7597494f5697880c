/** The journal thread ends, as it does when memory runs out. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { test } from "node:test";
import type { Worker } from "node:worker_threads";
import { readUsage } from "../../../../plugins/billing/metering/read-usage.ts";
import { about, charge, meterFixture, principalOf } from "./fixture.ts";

for (const durability of ["settled", "async"] as const) {
  test(`without its thread the journal refuses records and logs it, and nothing hangs (${durability})`, async (t) => {
    const fixture = meterFixture(t);
    const started = once(process, "worker");
    const meter = await fixture.open({ durability });
    // The event "worker" has a Worker.
    const [thread] = (await started) as [Worker];
    await charge(meter, principalOf(), 1);
    if (durability === "async") await meter.flush();

    const pending = charge(meter, principalOf(), 2);
    const ended = thread.terminate();
    if (durability === "settled") await assert.rejects(pending, /the journal thread has ended/);
    await ended;

    assert.deepEqual(meter.reserve(principalOf(), 4, about), {
      kind: "unavailable",
      reason: "the journal cannot be written",
    });
    assert.deepEqual(fixture.logged, [
      "error the journal thread has ended; restart the gateway",
      "error charges could not be written to the journal",
    ]);
    assert.match(await fixture.metrics.render(), /^sluice_journal_writable 0$/m);
    await meter.close();

    await fixture.open({ durability });
    const written = [...readUsage(fixture.dataDir)].map(({ usedMilliCu }) => usedMilliCu);
    assert.deepEqual(written, [1]);
  });
}
