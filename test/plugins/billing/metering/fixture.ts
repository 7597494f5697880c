/** Fixtures for tests of metering: a meter on its own folder, its rows, and a crash. */
import { cpSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestContext } from "node:test";
import type { Agent, KeyPrincipal, Reservation } from "sluice-gateway/services";
import {
  openMeter,
  type MeterOptions,
  type MeterService,
} from "../../../../plugins/billing/metering/meter.ts";
import { createMetrics, type RenderedMetrics } from "../../../../src/base/metrics.ts";
import { manualClock, type ManualClock } from "../../../../src/testing/clock.ts";
import { keptLog } from "../../../test-log.ts";
import { about, line, noon } from "./principals.ts";

export * from "./principals.ts";

/** Reserves credit, and throws if it is refused. */
export function take(
  meter: MeterService,
  principal: KeyPrincipal,
  costMilliCu: number,
  more: { requestId?: string; agent?: Agent; streamed?: boolean } = {},
): Reservation {
  const taken = meter.reserve(principal, costMilliCu, { ...about, ...more });
  if (taken.kind !== "reserved") throw new Error(`${taken.kind} instead of reserved`);
  return taken;
}

export function charge(
  meter: MeterService,
  principal: KeyPrincipal,
  costMilliCu: number,
): Promise<void> {
  return take(meter, principal, costMilliCu).settle([line(costMilliCu)]);
}

/** Returns the credit that a key has used and reserved, in milli-CU. */
export function keyUsage(
  meter: MeterService,
  id: string,
): { readonly dayMilliCu: number; readonly monthMilliCu: number; readonly openMilliCu: number } {
  const limits = { cuLimit24hMilli: undefined, cuLimit30dMilli: undefined };
  const { day, month, openMilliCu } = meter.keyWindows({ id, ...limits });
  return { dayMilliCu: day.usedMilliCu, monthMilliCu: month.usedMilliCu, openMilliCu };
}

export interface MeterFixture {
  readonly dataDir: string;
  readonly clock: ManualClock;
  readonly metrics: RenderedMetrics;
  /** Logged lines, as `level message`. */
  readonly logged: readonly string[];
  /** Opens a meter on the folder; it is closed when the test ends. */
  readonly open: (more?: Partial<MeterOptions>) => Promise<MeterService>;
  /** Copies the folder to the state that a crash at this moment would leave. */
  readonly crashed: () => MeterFixture;
}

export function meterFixture(t: TestContext): MeterFixture {
  const root = mkdtempSync(join(tmpdir(), "sluice-meter-"));
  const open: MeterService[] = [];
  t.after(async () => {
    await Promise.all(open.map((meter) => meter.close()));
    rmSync(root, { recursive: true, force: true });
  });
  let folders = 0;
  const fixture = (clock: ManualClock): MeterFixture => {
    const dataDir = join(root, `data-${folders++}`);
    const metrics = createMetrics();
    const { log, lines: logged } = keptLog();
    return {
      dataDir,
      clock,
      metrics,
      logged,
      async open(more = {}) {
        const meter = await openMeter({
          dataDir,
          durability: "settled",
          clock,
          log,
          metrics,
          ...more,
        });
        open.push(meter);
        return meter;
      },
      crashed() {
        const copy = fixture(clock);
        cpSync(dataDir, copy.dataDir, { recursive: true });
        return copy;
      },
    };
  };
  return fixture(manualClock(noon));
}
