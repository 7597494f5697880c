/**
 * Measures the CPU time per charge of the main thread and of the thread of the charges:
 *
 *   taskset -c 0 node bench/billing/charges.ts [--other FOLDER] [--slices 30]
 *
 * With `--other`, a meter of that checkout gets the same charges in turn, in slices of 100 ms. 32 clients make requests
 * with a little other work, like those of the node proxy.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { createMetrics } from "../../src/base/metrics.ts";
import { systemClock } from "../../src/base/clock.ts";
import { silentLog } from "../../test/test-log.ts";
import { principalOf } from "../../test/plugins/billing/metering/principals.ts";
import { median } from "../load/table.ts";
import type { MeterOptions, MeterService } from "../../plugins/billing/metering/meter.ts";

const { values } = parseArgs({
  options: { other: { type: "string" }, slices: { type: "string", default: "30" } },
});
const clients = 32;
const sliceMs = 100;
const principals = Array.from({ length: 50 }, (_, n) =>
  principalOf({ key: { id: `key_${n}` }, workspace: { id: `ws_${n % 5}` } }),
);

interface Measured {
  readonly root: string;
  readonly meter: MeterService;
  /** CPU time of each slice in microseconds per charge. */
  readonly all: number[];
  readonly main: number[];
}

const folder = mkdtempSync(join(tmpdir(), "sluice-charges-"));
let made = 0;

async function open(root: string, name: string): Promise<Measured> {
  const module = (await import(join(root, "plugins/billing/metering/meter.ts"))) as {
    openMeter(options: MeterOptions): Promise<MeterService>;
  };
  const meter = await module.openMeter({
    dataDir: mkdtempSync(join(folder, name)),
    durability: "settled",
    clock: systemClock,
    log: silentLog,
    metrics: createMetrics(),
  });
  return { root, meter, all: [], main: [] };
}

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** The rest of a request, so that charges do not have the caches of the processor for themselves. */
let sink = "";
function otherWork(): void {
  sink = JSON.stringify(
    JSON.parse(`{"jsonrpc":"2.0","id":${made},"params":["0x0123456789abcdef"]}`),
  );
}

async function client({ meter }: Measured, until: number): Promise<void> {
  while (performance.now() < until) {
    const number = made++;
    const about = {
      requestId: `request-${number}-0123456789`,
      surface: "ledger-rpc",
      route: "/v1/rpc",
    };
    const taken = meter.reserve(principals[number % principals.length]!, 1, about);
    if (taken instanceof Promise || taken.kind !== "reserved") throw new Error("no credit");
    await turn();
    for (let i = 0; i < 8; i++) otherWork();
    await taken.settle([{ surface: "ledger-rpc", method: `method_${number % 7}`, costMilliCu: 1 }]);
  }
}

async function slice(measured: Measured): Promise<void> {
  const first = made;
  const cpu = process.cpuUsage();
  const thread = process.threadCpuUsage();
  const until = performance.now() + sliceMs;
  await Promise.all(Array.from({ length: clients }, () => client(measured, until)));
  const all = process.cpuUsage(cpu);
  const main = process.threadCpuUsage(thread);
  measured.all.push((all.user + all.system) / (made - first));
  measured.main.push((main.user + main.system) / (made - first));
}

const here = join(import.meta.dirname, "../..");
const meters = [await open(here, "here")];
if (values.other !== undefined) meters.unshift(await open(values.other, "other"));
const warmUp = 60;
for (let round = 0; round < warmUp + Number(values.slices); round++) {
  for (const measured of round % 2 === 0 ? meters : meters.toReversed()) await slice(measured);
  if (round === warmUp) for (const { all, main } of meters) all.length = main.length = 0;
}
for (const { root, meter, all, main } of meters) {
  await meter.close();
  const [both, one] = [median(all).toFixed(2), median(main).toFixed(2)];
  console.log(`${root}: ${both} µs per charge, ${one} µs of them on the main thread`);
}
const [before, after] = meters;
if (before !== undefined && after !== undefined) {
  // The slices of one round ran one after the other, so noise of the machine hits both alike.
  const ratio = (of: "all" | "main"): string =>
    median(after[of].map((time, round) => time / (before[of][round] ?? 0))).toFixed(3);
  console.log(
    `this checkout needs ${ratio("all")} of the other one, on the main thread ${ratio("main")}`,
  );
}
rmSync(folder, { recursive: true });
if (sink === "") throw new Error("no charge was made");
