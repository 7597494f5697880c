/** Tests of the service `metering` with a clock that ran ahead or is behind: charges of the future are moved to the present. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { until } from "../../../store/redis/open-redis.ts";
import {
  about,
  charge,
  day,
  keyUsage,
  hour,
  line,
  meterFixture,
  minute,
  noon,
  principalOf,
  take,
  type MeterFixture,
  type TestMeter,
} from "./fixture.ts";

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
