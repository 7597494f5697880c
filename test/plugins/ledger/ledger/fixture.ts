/** A ledger with a fake pool. */
import type { Ledger, Ledgers } from "sluice-gateway/services";
import type { PoolConfig } from "../../../../plugins/ledger/ledger/options.ts";
import { openLedger, type LedgerService } from "../../../../plugins/ledger/ledger/open-ledger.ts";
import { createMetrics, type RenderedMetrics } from "../../../../src/base/metrics.ts";
import { manualClock } from "../../../../src/testing/clock.ts";
import { FakePool } from "./fake-pool.ts";
import { silentLog } from "../../../test-log.ts";

export function upstreamConfig(more: Partial<PoolConfig> = {}): PoolConfig {
  return {
    name: "ledger",
    urls: ["http://127.0.0.1:9944"],
    connectMs: 1000,
    headersMs: 1000,
    idleMs: 1000,
    connections: 8,
    aliases: {},
    methods: {},
    cacheBytes: 1 << 20,
    hedging: false,
    singleFlight: true,
    batchParallel: 4,
    probeMs: 1000,
    probeTimeoutMs: 3_000,
    maxLag: 8,
    maxHeadAgeMs: undefined,
    answerBytes: 1 << 24,
    ...more,
  };
}

export interface TestLedger {
  readonly ledger: LedgerService;
  readonly pool: FakePool;
  readonly metrics: RenderedMetrics;
}

export function testLedger(more: Partial<PoolConfig> = {}): TestLedger {
  const pool = new FakePool();
  const metrics = createMetrics();
  const upstream = upstreamConfig(more);
  const ledger = openLedger({
    upstream,
    pool,
    metrics,
    clock: manualClock(),
    log: silentLog,
  });
  return { ledger, pool, metrics };
}

/** 32 bytes in hexadecimal that differ in the last one. */
export const hash = (n: number): string => `0x${n.toString(16).padStart(64, "0")}`;

/** A request body. */
export const request = (method: string, params?: string, id = "1"): string =>
  `{"jsonrpc":"2.0","id":${id},"method":"${method}"${params === undefined ? "" : `,"params":${params}`}}`;

/** The service `ledger` with one pool, or without any. */
export function ledgersOf(ledger?: Ledger): Ledgers {
  return {
    pool: (name) => (name === "ledger" ? ledger : undefined),
    decoder: () => undefined,
  };
}
