/**
 * Tests of the service `metering` when its host is faulty, with a manual clock. While the disk is full, SQLite reports
 * SQLITE_FULL, because the meter is opened with a limit on the size of its file. Charges of a clock that ran ahead are
 * moved to the present.
 */
import assert from "node:assert/strict";
import { DatabaseSync } from "node:sqlite";
import { test } from "node:test";
import type { KeyPrincipal, Reservation } from "sluice-gateway/services";
import {
  chargesPath,
  openChargesDatabase,
} from "../../../../plugins/billing/metering/journal-schema.ts";
import { type MeterService, openMeter } from "../../../../plugins/billing/metering/meter.ts";
import { until } from "../../../store/redis/open-redis.ts";
import {
  type Meter,
  type MeterFixture,
  type TestMeter,
  about,
  charge,
  day,
  hour,
  keyUsage,
  line,
  meterFixture,
  minute,
  noon,
  principalOf,
  take,
} from "./fixture.ts";

type FullMeter = Meter & Pick<MeterService, "writable" | "flush" | "close">;

/** Opens a meter whose journal has room for a few more pages. `free` makes room, as deleting files would. */
async function nearlyFull(
  fixture: MeterFixture,
  durability: "settled" | "async" = "settled",
): Promise<{ meter: FullMeter; free: () => void }> {
  const db = openChargesDatabase(fixture.dataDir);
  db.exec("CREATE TABLE filler (a BLOB); INSERT INTO filler VALUES (zeroblob(4000000))");
  const pages = Number(db.prepare("PRAGMA page_count").get()?.["page_count"]);
  db.close();
  // It answers at once.
  const meter = (await openMeter({ ...fixture, durability, maxPages: pages + 4 })) as FullMeter;
  fixture.closing.push(() => meter.close());
  return {
    meter,
    free() {
      using other = new DatabaseSync(chargesPath(fixture.dataDir), { timeout: 5_000 });
      other.exec("DROP TABLE filler");
    },
  };
}

const principal: KeyPrincipal = principalOf({
  plan: { includedMilliCu: 1_000, overageUsdPerCu: "0.001" },
  workspace: { purchasedTotalMilliCu: 500 },
});

async function chargeUntilFull(meter: Meter): Promise<number> {
  for (let written = 0; ; written++) {
    assert.ok(written < 10_000, "the disk never fills");
    const results = await Promise.allSettled(
      Array.from({ length: 20 }, () => charge(meter, principal, 1)),
    );
    const lost = results.filter((result) => result.status === "rejected").length;
    // All charges of a turn share one commit, or the first has its own commit and the rest share one.
    if (lost > 0) return written * 20 + 20 - lost;
  }
}

async function tryAgain(
  { clock, logged }: MeterFixture,
  done: () => boolean | Promise<boolean>,
): Promise<void> {
  clock.advance(1_000);
  for (let turns = 0; !(await done()); turns++) {
    if (turns > 100_000) throw new Error(`nothing happened: ${logged.join("; ")}`);
    await new Promise((resolve) => void setImmediate(resolve));
  }
}

const failures = async ({ metrics }: MeterFixture): Promise<number> =>
  Number(/sluice_journal_failures_total (\d+)/.exec(await metrics.render())?.[1]);

test("a full disk rejects charges and new reservations, charges nothing, and recovers", async (t) => {
  const fixture = meterFixture(t);
  const { meter, free } = await nearlyFull(fixture);
  const held = take(meter, principal, 7);
  const streamed = take(meter, principal, 9, { streamed: true });
  await meter.flush();
  const written = await chargeUntilFull(meter);

  assert.equal(meter.writable, false);
  const unavailable = { kind: "unavailable", reason: "the journal cannot be written" };
  assert.deepEqual(meter.reserve(principal, 1, about), unavailable);
  assert.deepEqual(meter.reserveWithoutLimit(principal, 1, about), unavailable);
  assert.match(await fixture.metrics.render(), /sluice_journal_writable 0/);
  assert.match(fixture.logged.join(), /error the disk is full/);
  const used = { dayMilliCu: written, monthMilliCu: written, openMilliCu: 16 };
  assert.deepEqual(keyUsage(meter, "key_1"), used, "what was not written is taken back");
  assert.equal(meter.workspaceUsage("ws_1").includedMilliCu, Math.min(written, 1_000));

  // These end while nothing can be written.
  await assert.rejects(held.settle([line(7)]));
  streamed.release();
  assert.deepEqual(keyUsage(meter, "key_1"), { ...used, openMilliCu: 0 });

  // The disk is still full, so the probe fails and the journal stays unwritable.
  await tryAgain(fixture, async () => (await failures(fixture)) >= 2);
  assert.equal(meter.writable, false);

  free();
  await tryAgain(fixture, () => meter.writable);
  assert.match(await fixture.metrics.render(), /sluice_journal_writable 1/);
  await charge(meter, principal, 3);
  assert.equal(keyUsage(meter, "key_1").dayMilliCu, written + 3);
  const rows = fixture.rows();
  assert.equal(rows.length, written + 1);
  assert.equal(
    rows.reduce((sum, row) => sum + row.usedMilliCu, 0),
    written + 3,
  );

  const again = await fixture.crashed().open();
  assert.deepEqual(keyUsage(again, "key_1"), keyUsage(meter, "key_1"));
  assert.deepEqual(again.workspaceUsage("ws_1"), meter.workspaceUsage("ws_1"));
});

test("a new name whose first commit failed is written with a later commit", async (t) => {
  const fixture = meterFixture(t);
  const { meter, free } = await nearlyFull(fixture);
  const held = take(meter, principal, 1);
  let n = 0;
  const other = (): Reservation => take(meter, principalOf({ key: { id: `key_${n++}` } }), 1);
  let failed = false;
  while (!failed)
    failed = await other()
      .settle([line(1)])
      .then(
        () => false,
        () => true,
      );
  held.release();
  free();
  await tryAgain(fixture, () => meter.writable);
  const last = principalOf({ key: { id: `key_${n - 1}` } });
  await charge(meter, last, 5);
  assert.equal(fixture.rows().at(-1)?.keyId, `key_${n - 1}`);
  const again = await fixture.crashed().open();
  assert.equal(keyUsage(again, `key_${n - 1}`).dayMilliCu, 5);
});

test("a stream whose intent was not written continues and is charged if there is room at its end, and no new stream begins meanwhile", async (t) => {
  const fixture = meterFixture(t);
  const { meter, free } = await nearlyFull(fixture);
  const running: Reservation[] = [];
  const isFull = async (): Promise<boolean> => {
    running.push(take(meter, principal, 1, { streamed: true, requestId: "x".repeat(200) }));
    return meter.flush().then(
      () => false,
      () => true,
    );
  };
  while (!(await isFull())) assert.ok(running.length < 10_000, "the disk never fills");
  const [early, broken] = running;
  const late = running.at(-1);
  assert.ok(early !== undefined && broken !== undefined && late !== undefined);
  assert.equal(meter.writable, false);
  assert.equal(meter.reserve(principal, 1, { ...about, streamed: true }).kind, "unavailable");
  assert.equal(keyUsage(meter, "key_1").openMilliCu, running.length);
  await assert.rejects(broken.settle([line(1)]), "an end that comes now is charged nothing");

  free();
  await tryAgain(fixture, () => meter.writable);
  await Promise.all([early.settle([line(1)]), late.settle([line(1)])]);
  for (const one of running) one.release();
  await meter.flush();
  assert.deepEqual(keyUsage(meter, "key_1"), { dayMilliCu: 2, monthMilliCu: 2, openMilliCu: 0 });
  const crashed = fixture.crashed();
  const again = await crashed.open();
  assert.deepEqual(keyUsage(again, "key_1"), { dayMilliCu: 2, monthMilliCu: 2, openMilliCu: 0 });
});

test("asynchronous charges are written when a full disk has room again", async (t) => {
  const fixture = meterFixture(t);
  const { meter, free } = await nearlyFull(fixture, "async");
  const held = take(meter, principal, 1);
  let made = 0;
  while (meter.writable) {
    for (let i = 0; i < 20 && meter.writable; i++, made++) await charge(meter, principal, 1);
    await new Promise((resolve) => void setImmediate(resolve));
  }
  assert.equal(meter.reserve(principal, 1, about).kind, "unavailable");
  await held.settle([line(1)]);
  made++;
  const { dayMilliCu, openMilliCu } = keyUsage(meter, "key_1");
  assert.equal(dayMilliCu + openMilliCu, made, "the callers were notified of their charges");
  free();
  await tryAgain(fixture, () => meter.writable);
  await meter.flush();
  assert.equal(fixture.rows().length, made);
});

test("a meter that closes during a probe writes its charges once", async (t) => {
  const fixture = meterFixture(t);
  const { meter, free } = await nearlyFull(fixture, "async");
  let made = 0;
  for (; meter.writable; made++) {
    await charge(meter, principal, 1);
    await new Promise(setImmediate);
  }
  free();
  // The probe waits for the lock.
  using other = new DatabaseSync(chargesPath(fixture.dataDir), { timeout: 5_000 });
  other.exec("BEGIN IMMEDIATE");
  fixture.clock.advance(1_000);
  for (let turn = 0; turn < 100; turn++) await new Promise(setImmediate);
  const closed = meter.close();
  for (let turn = 0; turn < 100; turn++) await new Promise(setImmediate);
  other.exec("COMMIT");
  await closed;
  assert.equal(fixture.rows().length, made);
});

test("streams that end while nothing can be written are not left open", async (t) => {
  const fixture = meterFixture(t);
  const { meter, free } = await nearlyFull(fixture);
  const streams = Array.from({ length: 3 }, () => take(meter, principal, 1, { streamed: true }));
  const [first, second, third] = streams;
  assert.ok(first !== undefined && second !== undefined && third !== undefined);
  await meter.flush();
  while (meter.writable) {
    const waiting = Array.from({ length: 20 }, () => take(meter, principal, 1));
    await Promise.allSettled(waiting.map((each) => each.settle([line(1)])));
  }
  await assert.rejects(first.settle([line(1)]));
  second.release();
  await assert.rejects(third.settle([line(1)]));
  free();
  await tryAgain(fixture, () => meter.writable);
  await charge(meter, principal, 3);
  await meter.flush();
  const again = fixture.crashed();
  await again.open();
  assert.doesNotMatch(again.logged.join(), /left open by a crash/);
});

const january = Date.UTC(2026, 0);
const february = Date.UTC(2026, 1);

function timesOf(fixture: MeterFixture): number[] {
  return fixture.rows().map((row) => row.time);
}

function valueOf({ metrics }: MeterFixture, name: string): number | undefined {
  return metrics.read(name)[0]?.value;
}

/** Returns a meter with a charge of 4 at noon, and one of 3 by a clock that is 400 days ahead. */
async function chargedAhead(fixture: MeterFixture): Promise<TestMeter> {
  const meter = await fixture.open();
  await charge(meter, principalOf(), 4);
  fixture.clock.jump(400 * day);
  await charge(meter, principalOf(), 3);
  assert.equal(keyUsage(meter, "key_1").dayMilliCu, 3);
  return meter;
}

test("a start moves the charges of a clock that ran ahead to the present, and counts all of the last 30 days", async (t) => {
  const fixture = meterFixture(t);
  await chargedAhead(fixture);
  fixture.clock.jump(hour - 400 * day);
  const later = fixture.crashed();
  const meter = await later.open();
  assert.deepEqual(timesOf(later), [noon, noon + hour]);
  assert.deepEqual(keyUsage(meter, "key_1"), { dayMilliCu: 7, monthMilliCu: 7, openMilliCu: 0 });
  const usage = meter.workspaceUsage("ws_1");
  assert.equal(usage.periodStart, january);
  assert.equal(usage.includedMilliCu, 7);
  assert.match(later.logged.join("\n"), /warn the clock of this host ran ahead/);
  assert.equal(valueOf(later, "sluice_redated_commits_total"), 1);
  later.clock.advance(day + 2 * minute);
  assert.equal(keyUsage(meter, "key_1").dayMilliCu, 0);
  later.clock.advance(february - later.clock.now());
  assert.equal(meter.workspaceUsage("ws_1").includedMilliCu, 0);
});

test("a crash right after the correction repeats nothing, and keeps the ids of the charges", async (t) => {
  const fixture = meterFixture(t);
  await chargedAhead(fixture);
  const ids = fixture.rows().map(({ id }) => id);
  fixture.clock.jump(hour - 400 * day);
  const once = fixture.crashed();
  await once.open();
  const twice = once.crashed();
  const meter = await twice.open();
  assert.deepEqual(
    twice.rows().map(({ id }) => id),
    ids,
  );
  assert.equal(keyUsage(meter, "key_1").monthMilliCu, 7);
  assert.equal(valueOf(twice, "sluice_redated_commits_total"), 0);
});

test("the export, the report and the spend of the present month have charges that a clock dated into the future", async (t) => {
  const fixture = meterFixture(t);
  const first = await chargedAhead(fixture);
  const range = { workspaceId: "ws_1", from: january, to: february };
  const spent = async ({ usage }: TestMeter): Promise<unknown> => {
    const made = await usage.spend({ ...range, by: "tool", limit: 10 });
    return made.kind === "done" && made.spend.total.usedMilliCu;
  };
  assert.equal(await spent(first), 4);
  await first.close();
  fixture.clock.jump(hour - 400 * day);
  const meter = await fixture.open();
  assert.equal(await spent(meter), 7);
  assert.ok(timesOf(fixture).every((time) => time < february));
  const report = await meter.usage.report({ ...range, groupBy: [] });
  assert.ok(report.kind === "done");
  assert.match(Buffer.from(report.json).toString(), /"used_cu_milli":7/);
});

test("a running gateway moves them when the clock is corrected, and charges nothing twice and loses nothing", async (t) => {
  const fixture = meterFixture(t);
  const { clock } = fixture;
  const meter = await chargedAhead(fixture);
  const open = take(meter, principalOf(), 5);
  const streamed = take(meter, principalOf(), 9, { streamed: true });
  const limited = principalOf({ key: { cuLimit24hMilli: 22 } });
  clock.jump(hour - 400 * day);
  clock.advance(1_000);
  assert.equal(meter.reserve(principalOf(), 1, about).kind, "unavailable");
  assert.equal(meter.writable, false);
  const settled = open.settle([line(5)]);
  await until(() => meter.writable);
  await settled;
  const now = clock.now();
  assert.deepEqual(timesOf(fixture), [noon, now, now]);
  assert.deepEqual(keyUsage(meter, "key_1"), { dayMilliCu: 12, monthMilliCu: 12, openMilliCu: 9 });
  assert.equal(meter.reserve(limited, 2, about).kind, "refused");
  await streamed.settle([line(9)]);
  await meter.close();
  const again = await fixture.open();
  assert.equal(keyUsage(again, "key_1").monthMilliCu, 21);
  assert.equal(again.workspaceUsage("ws_1").includedMilliCu, 21);
  assert.equal(valueOf(fixture, "sluice_expired_intents_total"), 0);
});

test("a clock that is behind moves no charge: new ones get the time of the last one, and a metric and the log say so", async (t) => {
  const fixture = meterFixture(t);
  const { clock } = fixture;
  const first = await fixture.open();
  for (let days = 0; days < 10; days++) {
    await charge(first, principalOf(), 1);
    clock.advance(day);
  }
  await first.close();
  const times = timesOf(fixture);
  const last = times.at(-1) ?? 0;
  // One start among the charges, and two before all of them.
  for (const wrong of [noon + 3.5 * day, noon - day, 0]) {
    clock.jump(wrong - clock.now());
    const meter = await fixture.open();
    await charge(meter, principalOf(), 1);
    times.push(last);
    assert.deepEqual(timesOf(fixture), times);
    clock.advance(1_000);
    const behindSeconds = (last - wrong) / 1000 - 1;
    assert.equal(valueOf(fixture, "sluice_clock_behind_seconds"), behindSeconds);
    await meter.close();
  }
  assert.match(fixture.logged.join("\n"), /error the clock is behind the last charge/);
  assert.equal(valueOf(fixture, "sluice_redated_commits_total"), 0);
});
