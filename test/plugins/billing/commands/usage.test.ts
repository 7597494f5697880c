import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import { UsageError } from "../../../../src/commands/command.ts";
import { usage } from "../../../../plugins/billing/commands/usage.ts";
import { openMeter, type MeterService } from "../../../../plugins/billing/metering/meter.ts";
import { createMetrics } from "../../../../src/base/metrics.ts";
import { manualClock } from "../../../../src/testing/clock.ts";
import { agentOf, minute, noon, principalOf, take } from "../metering/fixture.ts";
import { commandLine, type CommandLine } from "../../../commands/command-line.ts";
import { silentLog } from "../../../test-log.ts";

/** Makes a folder in which two charges were settled one minute apart. The meter is still running. */
async function twoCharges(t: TestContext): Promise<CommandLine & { meter: MeterService }> {
  const line = commandLine(t);
  const clock = manualClock(noon);
  const meter = await openMeter({
    dataDir: line.data,
    durability: "settled",
    clock,
    log: silentLog,
    metrics: createMetrics(),
  });
  t.after(() => meter.close());
  await take(meter, principalOf(), 1_000, { requestId: "req-1" }).settle([
    { surface: "ledger-rpc", method: "chain_getBlock", costMilliCu: 1_000 },
  ]);
  clock.advance(minute);
  const planner = agentOf("Planner 2", {
    version: "1.2",
    sessionId: "s-1",
    provider: "Acme",
    capabilities: ["tools", "batch"],
  });
  await take(meter, principalOf(), 70, { requestId: 'a,"b"', agent: planner }).settle([
    {
      surface: "chat",
      method: "completions",
      model: "A/b-1",
      costMilliCu: 70,
      inputTokens: 5,
      outputTokens: 6,
      estimated: true,
      outcome: "clientLeft",
    },
  ]);
  return { ...line, meter };
}

test("export refuses to continue after a charge that the journal does not have", async (t) => {
  const { run } = await twoCharges(t);
  const { id } = JSON.parse((await run(usage, "export")).out[0] ?? "") as { id: string };
  for (const after of ["chg_000000000000_1_0", id.replace(/_\d+_\d+$/, "_999999999_0")]) {
    const wrong = await run(usage, "export", "--after", after);
    assert.equal(wrong.code, 1);
    assert.match(wrong.err.join(), /the journal has no charge with the id/);
  }
});

test("a text that is not a time is refused as wrong usage", async (t) => {
  const { run } = commandLine(t);
  await assert.rejects(run(usage, "export", "--from", "2026-02-30"), UsageError);
  await assert.rejects(run(usage, "export", "--to="), UsageError);
});

test("an unknown format, an unknown subcommand or a missing one is wrong usage", async (t) => {
  const { run } = commandLine(t);
  await assert.rejects(run(usage, "export", "--format", "xml"), /jsonl, csv/);
  await assert.rejects(run(usage, "export", "--format", "csv", "--json"), UsageError);
  await assert.rejects(run(usage, "exprot"), /did you mean "export"/);
  await assert.rejects(run(usage), UsageError);
  await assert.rejects(run(usage, "export", "all"), UsageError);
});

test("a data folder without a journal fails with the remedy", async (t) => {
  const { run, data } = commandLine(t);
  const { code, out, err } = await run(usage, "export");
  assert.deepEqual([code, out], [1, []]);
  assert.match(err.join("\n"), /:4:10 {2}SLUICE_STORE_FAILED {2}there is no journal at /);
  assert.ok(err.join("\n").includes(data));
});

test("an export stops when it receives a signal", async (t) => {
  const { meter, configFile } = await twoCharges(t);
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
