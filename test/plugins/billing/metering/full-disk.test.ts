/**
 * Tests of the state machine of a journal that cannot be written, with a manual clock. SQLite reports SQLITE_FULL, because
 * the meter is opened with a limit on the size of its file.
 */
import assert from "node:assert/strict";
import { DatabaseSync } from "node:sqlite";
import { test } from "node:test";
import type { KeyPrincipal, Reservation } from "sluice-gateway/services";
import {
  openChargesDatabase,
  chargesPath,
} from "../../../../plugins/billing/metering/journal-schema.ts";
import { openMeter, type MeterService } from "../../../../plugins/billing/metering/meter.ts";
import {
  about,
  charge,
  keyUsage,
  line,
  meterFixture,
  principalOf,
  take,
  type Meter,
  type MeterFixture,
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
