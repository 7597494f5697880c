/** Tests of the service `metering` of a gateway that is alone: its limits, its commits, crashes and the end of its thread. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Reservation } from "sluice-gateway/services";
import { openChargesDatabase } from "../../../../plugins/billing/metering/journal-schema.ts";
import { about, charge, keyUsage, hour, line, meterFixture, principalOf, take } from "./fixture.ts";
import { until } from "../../../store/redis/open-redis.ts";
import { once } from "node:events";
import type { Worker } from "node:worker_threads";

test("a reservation without a limit is held and charged only as far as sums stay exact", async (t) => {
  const { open } = meterFixture(t);
  const meter = await open();
  const most = Number.MAX_SAFE_INTEGER;
  const free = principalOf();
  for (const expected of [most - 7, 7, 0]) {
    const taken = meter.reserveWithoutLimit(free, most - 7, about);
    assert.ok(taken.kind === "reserved");
    assert.equal(taken.costMilliCu, expected);
    await taken.settle([line(most)]);
  }
  assert.deepEqual(keyUsage(meter, "key_1"), {
    dayMilliCu: most,
    monthMilliCu: most,
    openMilliCu: 0,
  });
});

test("a clock that jumps back releases no credit, within the day or across months", async (t) => {
  const { open, clock, rows } = meterFixture(t);
  clock.jump(Date.UTC(2026, 1, 1, 0, 30) - clock.now());
  const meter = await open();
  const principal = principalOf({ key: { cuLimit24hMilli: 10 }, plan: { includedMilliCu: 10 } });
  await charge(meter, principal, 10);
  clock.jump(-hour);
  assert.equal(meter.reserve(principal, 1, about).kind, "refused");
  await take(meter, principalOf(), 3).settle([line(3)]);
  assert.deepEqual(keyUsage(meter, "key_1"), { dayMilliCu: 13, monthMilliCu: 13, openMilliCu: 0 });
  assert.equal(meter.workspaceUsage("ws_1").periodStart, Date.UTC(2026, 1));
  assert.deepEqual(
    rows().map(({ time }) => time),
    [Date.UTC(2026, 1, 1, 0, 30), Date.UTC(2026, 1, 1, 0, 30)],
  );
});

test("reservations that would bring a sum above 2^53 are refused", async (t) => {
  const { open } = meterFixture(t);
  const meter = await open();
  const paid = principalOf({ plan: { overageUsdPerCu: "0.001" } });
  const half = 2 ** 52;
  await charge(meter, paid, half);
  assert.equal(meter.reserve(paid, half, about).kind, "refused");
  const reservation = take(meter, paid, half - 1);
  await reservation.settle([line(Number.MAX_SAFE_INTEGER)]);
  assert.equal(keyUsage(meter, "key_1").dayMilliCu, Number.MAX_SAFE_INTEGER);
});

test("after a refusal, credit that is freed can be reserved at once, also after it was returned", async (t) => {
  const { open, clock } = meterFixture(t);
  const meter = await open();
  const principal = principalOf({ key: { cuLimit24hMilli: 400 } });
  const [first, second] = [take(meter, principal, 72), take(meter, principal, 100)];
  take(meter, principal, 201);
  clock.advance(500);
  assert.equal(meter.reserve(principal, 28, about).kind, "refused");
  first.release();
  take(meter, principal, 99);
  assert.equal(meter.reserve(principal, 28, about).kind, "refused");
  second.release();
  clock.advance(500);
  take(meter, principal, 100);
});

test("a journal with sums above 2^53 from an earlier release opens, and inexact reservations are refused", async (t) => {
  const { open, dataDir } = meterFixture(t);
  const first = await open();
  const paid = principalOf({ plan: { overageUsdPerCu: "0.001" } });
  await charge(first, paid, 1_000);
  await first.close();
  const db = openChargesDatabase(dataDir);
  db.exec("UPDATE minutes SET cu_milli = 9150000006150000");
  db.exec("UPDATE key_hours SET cu_milli = 9150000006150000");
  db.exec("UPDATE periods SET overage = 9223372036854775807");
  db.close();
  const meter = await open();
  assert.equal(keyUsage(meter, "key_1").monthMilliCu, Number.MAX_SAFE_INTEGER);
  assert.equal(meter.reserve(paid, 1, about).kind, "refused");
  const forced = meter.reserveWithoutLimit(paid, 1_000, about);
  assert.ok(forced.kind === "reserved");
  await forced.settle([line(1_000)]);
  assert.equal(keyUsage(meter, "key_1").monthMilliCu, Number.MAX_SAFE_INTEGER);
  await meter.close();
  // The sums that are written at close can be read again.
  const again = await open();
  assert.equal(keyUsage(again, "key_1").openMilliCu, 0);
});

test("many charges of one turn of the event loop share few commits", async (t) => {
  const { open, metrics } = meterFixture(t);
  const meter = await open();
  await Promise.all(Array.from({ length: 1_000 }, () => charge(meter, principalOf(), 1)));
  const text = await metrics.render();
  const commits = Number(/sluice_journal_commit_rows_count (\d+)/.exec(text)?.[1]);
  const rows = Number(/sluice_journal_commit_rows_sum (\d+)/.exec(text)?.[1]);
  assert.equal(rows, 1_000);
  assert.ok(commits >= 1 && commits <= 20, `${commits} commits`);
  assert.match(text, /sluice_charged_cu_milli_total\{surface="ledger-rpc"\} 1000/);
});

test("the end of a stream waits at most 4 ms for other records", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const { open } = meterFixture(t);
  const meter = await open();
  const stream = (): Reservation => take(meter, principalOf(), 9, { streamed: true });
  const ending = stream();
  stream();
  const charged = ending.settle([line(7)]);
  t.mock.timers.tick(4);
  await charged;
  assert.equal(keyUsage(meter, "key_1").dayMilliCu, 7);
});

test("the intent of a stream is soon on disk, and the start after a crash releases it", async (t) => {
  const fixture = meterFixture(t);
  const meter = await fixture.open();
  take(meter, principalOf(), 900, { streamed: true });
  take(meter, principalOf(), 50);
  const commits = (): number | undefined =>
    fixture.metrics
      .read("sluice_journal_commit_rows")
      .find((each) => each.metricName.endsWith("_count"))?.value;
  await until(() => commits() === 1);
  const crashed = fixture.crashed();
  const again = await crashed.open();
  assert.deepEqual(keyUsage(again, "key_1"), { dayMilliCu: 0, monthMilliCu: 0, openMilliCu: 0 });
  assert.match(await crashed.metrics.render(), /sluice_expired_intents_total 1/);
  assert.deepEqual(crashed.rows(), []);
  // An intent expires once: the next start finds none.
  await again.close();
  const third = crashed.crashed();
  await third.open();
  assert.match(await third.metrics.render(), /sluice_expired_intents_total 0/);
});

test("close writes all records, later reservations are refused, and close can be called twice", async (t) => {
  const { open, rows } = meterFixture(t);
  const meter = await open();
  const late = take(meter, principalOf(), 5);
  const written = charge(meter, principalOf(), 5);
  await Promise.all([meter.close(), meter.close()]);
  await written;
  assert.equal(meter.writable, false);
  assert.equal(meter.reserve(principalOf(), 1, about).kind, "unavailable");
  await assert.rejects(late.settle([line(5)]));
  assert.equal(rows().length, 1);
});

const february = Date.UTC(2026, 1);

function customer(includedMilliCu = 100): ReturnType<typeof principalOf> {
  return principalOf({ plan: { includedMilliCu }, workspace: { purchasedTotalMilliCu: 1_000 } });
}

for (const turns of [0, 1, 2]) {
  test(`charges that are written after the end of their month are divided with it (${turns} turns after the first charge)`, async (t) => {
    const fixture = meterFixture(t);
    const { clock } = fixture;
    const meter = await fixture.open();
    clock.jump(february - 1 - clock.now());
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
    assert.deepEqual(
      fixture.rows().map((row) => row.purchasedMilliCu),
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
  const again = await fixture.crashed().open();
  assert.equal(again.purchasedLeft(customer(500).workspace), 1_000);
});

for (const durability of ["settled", "async"] as const) {
  test(`without its thread the journal refuses records and logs it, and nothing hangs (${durability})`, async (t) => {
    const fixture = meterFixture(t);
    const started = once(process, "worker");
    const meter = await fixture.open(durability);
    // The event "worker" has a Worker.
    const [thread] = (await started) as [Worker];
    await charge(meter, principalOf(), 1);
    await until(() => fixture.rows().length === 1);

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

    await fixture.open(durability);
    const written = fixture.rows().map(({ usedMilliCu }) => usedMilliCu);
    assert.deepEqual(written, [1]);
  });
}
