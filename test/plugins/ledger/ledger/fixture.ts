/** Values that many tests of the ledger share. */
import type { PoolConfig } from "../../../../plugins/ledger/ledger/options.ts";

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

/** 32 bytes in hexadecimal that differ in the last one. */
export const hash = (n: number): string => `0x${n.toString(16).padStart(64, "0")}`;

/** A request body. */
export const request = (method: string, params?: string, id = "1"): string =>
  `{"jsonrpc":"2.0","id":${id},"method":"${method}"${params === undefined ? "" : `,"params":${params}`}}`;
