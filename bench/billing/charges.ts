/**
 * Measures the CPU time per charge of the main thread and the thread of the charges together:
 * `node bench/billing/charges.ts`. Compare it with the same program in another checkout, in turn.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { KeyPrincipal } from "sluice-gateway/services";
import { openMeter } from "../../plugins/billing/metering/meter.ts";
import { systemClock } from "../../src/clock.ts";
import { createMetrics } from "../../src/metrics.ts";
import { silentLog } from "../../test/test-log.ts";
import { principalOf } from "../../test/plugins/billing/metering/principals.ts";

const charges = 100_000;
const keys = 50;

/** Makes `count` charges, `atOnce` of them at the same time, and returns the CPU time per charge in microseconds. */
async function measure(atOnce: number, count: number): Promise<number> {
  const dataDir = mkdtempSync(join(tmpdir(), "sluice-charges-"));
  const meter = await openMeter({
    dataDir,
    durability: "settled",
    clock: systemClock,
    log: silentLog,
    metrics: createMetrics(),
  });
  const principals = Array.from({ length: keys }, (_, n) =>
    principalOf({ key: { id: `key_${n}` }, workspace: { id: `ws_${n % 5}` } }),
  );
  let made = 0;
  const chargeOne = async (principal: KeyPrincipal): Promise<void> => {
    const method = `method_${made % 7}`;
    const about = {
      requestId: `request-${made++}-0123456789`,
      surface: "ledger-rpc",
      route: "/v1/rpc",
    };
    const taken = meter.reserve(principal, 1, about);
    if (taken.kind !== "reserved") throw new Error(`${taken.kind} instead of reserved`);
    await taken.settle([{ surface: "ledger-rpc", method, costMilliCu: 1 }]);
  };
  const run = async (upTo: number): Promise<void> => {
    const client = async (): Promise<void> => {
      while (made < upTo) await chargeOne(principals[made % keys] ?? principalOf({}));
    };
    await Promise.all(Array.from({ length: atOnce }, client));
  };
  await run(count / 4);
  const before = process.cpuUsage();
  const first = made;
  await run(first + count);
  // The sums of a minute are part of the cost.
  await meter.close();
  const { user, system } = process.cpuUsage(before);
  rmSync(dataDir, { recursive: true });
  return (user + system) / (made - first);
}

for (const [atOnce, count] of [
  [1, charges / 20],
  [8, charges / 4],
  [32, charges],
  [128, charges],
] as const) {
  console.log(
    `${atOnce} at the same time: ${(await measure(atOnce, count)).toFixed(2)} µs per charge`,
  );
}
