/**
 * Charges in a loop until it is killed. In every turn it makes calls of several keys, with one line and with several.
 * Prints the request id of each charge when it is acknowledged, at once and unbuffered.
 */
import { writeSync } from "node:fs";
import { systemClock } from "../../../../src/clock.ts";
import { openMeter } from "../../../../plugins/billing/metering/meter.ts";
import { createMetrics } from "../../../../src/metrics.ts";
import { line, principalOf, take } from "./fixture.ts";
import { silentLog } from "../../../test-log.ts";

const [dataDir = "", round = ""] = process.argv.slice(2);
const meter = await openMeter({
  dataDir,
  durability: "settled",
  clock: systemClock,
  log: silentLog,
  metrics: createMetrics(),
});
const principals = ["key_a", "key_b", "key_c"].map((id) =>
  principalOf({ key: { id }, plan: { overageUsdPerCu: "0.001" } }),
);
writeSync(1, "ready\n");

async function call(n: number): Promise<void> {
  const id = `${round}-${n}`;
  const reservation = take(meter, principals[n % 3] ?? principalOf(), 30, {
    requestId: id,
    streamed: n % 5 === 0,
  });
  // Some end when their intent is on disk, and most before it is.
  if (n % 50 === 0) await meter.flush();
  // Every seventh call is a batch: its three lines are charged together or not at all.
  await reservation.settle(n % 7 === 0 ? [line(10), line(10), line(10)] : [line(30)]);
  writeSync(1, `${id}\n`);
}

for (let n = 0; ;) {
  const turn: Promise<void>[] = [];
  for (let i = 0; i < 8; i++) turn.push(call(n++));
  await Promise.all(turn);
}
