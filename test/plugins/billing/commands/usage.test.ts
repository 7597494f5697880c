import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import { usage } from "../../../../plugins/billing/commands/usage.ts";
import { openMeter, type MeterService } from "../../../../plugins/billing/metering/meter.ts";
import { createMetrics } from "../../../../src/base/metrics.ts";
import { manualClock } from "../../../../src/testing/clock.ts";
import { charge, noon, principalOf, take } from "../metering/fixture.ts";
import { assertRefused } from "./wrong-usage.ts";
import { commandLine, type CommandLine } from "../../../commands/command-line.ts";
import { silentLog } from "../../../test-log.ts";

/** Makes a folder with one charge. The meter is still running. */
async function oneCharge(t: TestContext): Promise<CommandLine & { meter: MeterService }> {
  const line = commandLine(t);
  const meter = await openMeter({
    dataDir: line.data,
    durability: "settled",
    clock: manualClock(noon),
    log: silentLog,
    metrics: createMetrics(),
  });
  t.after(() => meter.close());
  await charge(meter, principalOf(), 1_000);
  return { ...line, meter };
}

test("export refuses to continue after a charge that the journal does not have", async (t) => {
  const { run } = await oneCharge(t);
  const { id } = JSON.parse((await run(usage, "export")).out[0] ?? "") as { id: string };
  for (const after of ["chg_000000000000_1_0", id.replace(/_\d+_\d+$/, "_999999999_0")]) {
    const wrong = await run(usage, "export", "--after", after);
    assert.equal(wrong.code, 1);
    assert.match(wrong.err.join(), /the journal has no charge with the id/);
  }
});

const wrong = `
export --from 2026-02-30   | --from
export --to=               | --to
export --format xml        | jsonl, csv
export --format csv --json |
exprot                     | did you mean "export"
NONE                       |
export all                 |
`;

test("wrong usage is refused", (t) => assertRefused(commandLine(t), usage, {}, wrong));

test("a data folder without a journal fails with the remedy", async (t) => {
  const { run, data } = commandLine(t);
  const { code, out, err } = await run(usage, "export");
  assert.deepEqual([code, out], [1, []]);
  assert.match(err.join("\n"), /:4:10 {2}SLUICE_STORE_FAILED {2}there is no journal at /);
  assert.ok(err.join("\n").includes(data));
});

test("an export stops when it receives a signal", async (t) => {
  const { meter, configFile } = await oneCharge(t);
  const many = Array.from({ length: 1_200 }, () => ({ surface: "s", method: "m", costMilliCu: 0 }));
  for (let at = 0; at < many.length; at += 200) {
    await take(meter, principalOf(), 0).settle(many.slice(at, at + 200));
  }
  const stopping = new AbortController();
  let printed = 0;
  const context = {
    env: { GATEWAY_ENV: "dev" },
    print: () => void (++printed === 10 && stopping.abort()),
    printToStderr: () => {},
    configFile,
    signal: stopping.signal,
    json: false,
  };
  assert.equal(await usage.run(context, {}, ["export"]), 1);
  assert.equal(printed, 500);
});
