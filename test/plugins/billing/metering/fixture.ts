/** Fixtures for tests of metering: principals, a meter on its own folder, its rows, and a crash. */
import { cpSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestContext } from "node:test";
import type {
  Agent,
  ApiKey,
  KeyPrincipal,
  Plan,
  Reservation,
  Workspace,
} from "sluice-gateway/services";
import {
  openMeter,
  type MeterOptions,
  type MeterService,
} from "../../../../plugins/billing/metering/meter.ts";
import { createMetrics, type RenderedMetrics } from "../../../../src/metrics.ts";
import { manualClock, type ManualClock } from "../../../../src/testing/clock.ts";
import { keptLog } from "../../../test-log.ts";

export const noon = Date.UTC(2026, 0, 15, 12);
export const minute = 60_000;
export const hour = 60 * minute;
export const day = 24 * hour;

export function planOf(more: Partial<Plan>): Plan {
  return {
    name: "free",
    rps: 2,
    includedMilliCu: 1_000_000,
    overageUsdPerCu: undefined,
    maxKeys: 10,
    ...more,
  };
}

export function workspaceOf(more: Partial<Workspace>): Workspace {
  return {
    id: "ws_1",
    name: "test",
    plan: "free",
    pendingPlan: undefined,
    pendingPlanAt: undefined,
    purchasedTotalMilliCu: 0,
    overageLimitCuMilli: undefined,
    createdAt: 0,
    ...more,
  };
}

export interface Wanted {
  readonly key?: Partial<ApiKey>;
  readonly workspace?: Partial<Workspace>;
  readonly plan?: Partial<Plan>;
}

export function principalOf({ key, workspace, plan }: Wanted = {}): KeyPrincipal {
  return {
    kind: "key",
    key: {
      id: "key_1",
      workspaceId: workspace?.id ?? "ws_1",
      name: "test",
      environment: "dev",
      capabilities: new Set(),
      rpsLimit: undefined,
      cuLimit24hMilli: undefined,
      cuLimit30dMilli: undefined,
      allowedAddresses: undefined,
      createdAt: 0,
      expiresAt: undefined,
      revokedAt: undefined,
      ...key,
    },
    workspace: workspaceOf(workspace ?? {}),
    plan: planOf(plan ?? {}),
    rps: 2,
  };
}

export const about = { requestId: "req-1", surface: "ledger-rpc" } as const;

export function line(costMilliCu: number): {
  surface: string;
  method: string;
  costMilliCu: number;
} {
  return { surface: "ledger-rpc", method: "chain_getBlock", costMilliCu };
}

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

/** Returns an agent with a name and, if given, further members. */
export function agentOf(name: string, more: Partial<Agent> = {}): Agent {
  const none = { version: undefined, sessionId: undefined, provider: undefined };
  return { name, ...none, capabilities: undefined, ...more };
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
