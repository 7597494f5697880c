import { cpSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { isDeepStrictEqual } from "node:util";
import type { Awaitable, Host, Log } from "sluice-gateway/plugin";
import type { Agent, KeyPrincipal, Metering, Reservation } from "sluice-gateway/services";
import type { UsageRow } from "../../../../plugins/billing/metering/charge-text.ts";
import metering from "../../../../plugins/billing/metering/index.ts";
import type { Durability } from "../../../../plugins/billing/metering/options.ts";
import { readUsage } from "../../../../plugins/billing/metering/read-usage.ts";
import { createMetrics, type RenderedMetrics } from "../../../../src/base/metrics.ts";
import { openComputePool } from "../../../../src/compute/pool.ts";
import { manualClock, type ManualClock } from "../../../../src/testing/clock.ts";
import { keptLog } from "../../../test-log.ts";
import { about, line, noon } from "./principals.ts";

export * from "./principals.ts";

/** The service of a gateway that is alone: it answers at once where the service may return a promise. */
export type Meter = {
  readonly [Member in keyof Omit<Metering, "usage" | "outageMs">]: (
    ...args: Parameters<Metering[Member]>
  ) => Exclude<ReturnType<Metering[Member]>, PromiseLike<unknown>>;
};

export interface TestMeter extends Meter, Pick<Metering, "usage" | "outageMs"> {
  readonly writable: boolean;
  readonly close: () => Promise<void>;
}

/** Reserves credit, and throws if it is refused. */
export function take(
  meter: Meter,
  principal: KeyPrincipal,
  costMilliCu: number,
  more: { requestId?: string; agent?: Agent; streamed?: boolean } = {},
): Reservation {
  const taken = meter.reserve(principal, costMilliCu, { ...about, ...more });
  if (taken.kind !== "reserved") throw new Error(`${taken.kind} instead of reserved`);
  return taken;
}

export function charge(meter: Meter, principal: KeyPrincipal, costMilliCu: number): Promise<void> {
  return take(meter, principal, costMilliCu).settle([line(costMilliCu)]);
}

export function keyUsage(
  meter: Meter,
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
  readonly log: Log;
  /** Logged lines, as `level message`. */
  readonly logged: readonly string[];
  /** Called when the test ends, before the folder is removed. */
  readonly closing: (() => Awaitable<void>)[];
  readonly open: (durability?: Durability) => Promise<TestMeter>;
  readonly rows: () => UsageRow[];
  /** Copies the folder to the state that a crash at this moment would leave. */
  readonly crashed: () => MeterFixture;
}

export function meterFixture(t: TestContext): MeterFixture {
  const root = mkdtempSync(join(tmpdir(), "sluice-meter-"));
  const closing: MeterFixture["closing"] = [];
  t.after(async () => {
    await Promise.all(closing.map(async (close) => close()));
    rmSync(root, { recursive: true, force: true });
  });
  let folders = 0;
  const fixture = (clock: ManualClock): MeterFixture => {
    const dataDir = join(root, `data-${folders++}`);
    const metrics = createMetrics();
    const { log, lines: logged } = keptLog();
    const background = openComputePool({ clock, log, metrics, threads: 1 });
    closing.push(() => background.close());
    // The members that the service uses without PostgreSQL and with one thread. No key of the folder has been used.
    const host = {
      clock,
      log,
      metrics,
      compute: { background },
      store: { folder: dataDir, sql: () => ({ query: () => Promise.resolve([]) }) },
    } as unknown as Host;
    return {
      dataDir,
      clock,
      metrics,
      log,
      logged,
      closing,
      async open(durability = "settled") {
        const parts: (() => Awaitable<void>)[] = [];
        const close = async (): Promise<void> => {
          await Promise.all(parts.map(async (end) => end()));
        };
        closing.push(close);
        const hooks = await metering.start({ metering: { durability } }, host, {
          keep(_, open, end) {
            const part = open();
            parts.push(() => end(part));
            return part;
          },
          isDefault: () => true,
        });
        return {
          ...(hooks.service as Meter & Metering),
          get writable() {
            return isDeepStrictEqual(hooks.ready?.(), { journal: true });
          },
          close,
        };
      },
      rows: () => [...readUsage(dataDir)],
      crashed() {
        const copy = fixture(clock);
        cpSync(dataDir, copy.dataDir, { recursive: true });
        return copy;
      },
    };
  };
  return fixture(manualClock(noon));
}
