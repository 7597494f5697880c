/**
 * Measures one target. Latency is measured at one connection, CPU time in closed loops, and the best rate for each tail
 * on a ladder of fixed rates. The memory is read when the process is idle, during all loads, and after them; its growth
 * is that under a steady load at the end.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { Driver, RequestLoad } from "./driver.ts";
import type { Peer } from "./process.ts";
import type { Started, Target } from "./proxies.ts";
import type { Workload } from "./targets.ts";

export interface Method {
  readonly seconds: number;
  readonly connections: readonly number[];
  readonly streams: readonly number[];
  readonly tokens: number;
  readonly isAgent: boolean;
  readonly restMs: number;
}

export interface Bench {
  readonly workload: Workload;
  readonly backend: Peer;
  readonly driver: Driver;
  readonly method: Method;
}

/** `figures` are by column; `faults` are the reasons for missing ones. */
export interface Row {
  readonly figures: Map<string, number>;
  readonly faults: string[];
}

/** Milliseconds that 99 % of the answers may take. */
export const tails = [1, 5, 10] as const;
/** Requests per second, in thousands. */
const rates = [0.5, 1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 25, 30, 40];
/** After so many requests V8 has compiled most hot code. A busy machine needs longer for them. */
const warmUpRequests = 40_000;
const maxWarmUpSeconds = 10;
const streamWarmUpSeconds = 4;
const steadySeconds = 6;
const sampleMs = 100;

export const columns = {
  p50: "p50 µs",
  p99: "p99 µs",
  cpu: (connections: number) => `CPU µs, ${connections} connections`,
  perSecond: (connections: number) => `requests/s, ${connections} connections`,
  tail: (ms: number) => `best rate, p99 ≤ ${ms} ms`,
  atRate: (rate: number) => `p50 ms at ${rate}/s`,
  first: (streams: number) => `first token p50 ms, streams: ${streams}`,
  firstTail: (streams: number) => `p99 ms, streams: ${streams}`,
  token: (streams: number) => `CPU µs/token, streams: ${streams}`,
  idle: "idle MiB",
  loaded: "under load",
  after: "after",
  growth: "growth/min",
  perStream: "KiB/stream",
  driver: "share of the load generator",
  backend: "share of the backend",
};

interface Measured extends Bench, Started, Row {
  readonly target: Target;
}

/** A target that fails has no figures. */
export async function measureRow(bench: Bench, target: Target): Promise<Row> {
  const row: Row = { figures: new Map(), faults: [] };
  const folder = mkdtempSync(join(tmpdir(), "sluice-bench-"));
  try {
    const started = await target.start(bench.backend, folder);
    await using _ = started.peer;
    const measured = { ...bench, ...started, ...row, target };
    await (bench.workload.path === undefined
      ? measureStreams(measured)
      : measureRequests(measured, bench.workload.path));
  } catch (error) {
    row.faults.push(String(error));
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
  return row;
}

async function measureRequests(measured: Measured, path: string): Promise<void> {
  const { driver, figures, headers, method, peer, target, workload } = measured;
  const { rate } = workload;
  const bodies = path === "/mcp" ? (target.revision ?? "2025-11-25") : "node";
  const { seconds } = method;
  const base: RequestLoad = { port: peer.port, path, headers, bodies, connections: 32, seconds };
  const loads = async (): Promise<void> => {
    for (let sent = 0, at = 0; sent < warmUpRequests && at < maxWarmUpSeconds; at++) {
      sent += (await driver.requests({ ...base, seconds: 1 })).requests;
    }
    await cell(measured, "1 connection", async () => {
      const { p50, p99 } = await driver.requests({ ...base, connections: 1 });
      figures.set(columns.p50, p50 * 1000).set(columns.p99, p99 * 1000);
    });
    for (const connections of method.connections) {
      const name = `${connections} connections`;
      await cell(measured, name, () => closedLoop(measured, { ...base, connections }));
    }
    await cell(measured, "fixed rates", () => ladder(measured, { ...base, connections: 64 }));
  };
  await watchMemory(measured, loads, (time) => driver.requests({ ...base, seconds: time, rate }));
}

async function closedLoop(
  { backend, driver, figures, peer }: Measured,
  load: RequestLoad,
): Promise<void> {
  const before = [peer.cpuMicros(), backend.cpuMicros()] as const;
  const { requests, seconds, cpuMicros } = await driver.requests(load);
  figures
    .set(columns.perSecond(load.connections), requests / seconds)
    .set(columns.cpu(load.connections), (peer.cpuMicros() - before[0]) / requests)
    .set(columns.backend, (backend.cpuMicros() - before[1]) / (seconds * 1e6))
    .set(columns.driver, cpuMicros / (seconds * 1e6));
}

async function ladder(measured: Measured, load: RequestLoad): Promise<void> {
  const { driver, figures, method, workload } = measured;
  for (const thousands of rates) {
    const rate = thousands * 1000;
    const { p50, p99 } = await driver.requests({ ...load, rate, seconds: method.seconds / 2 });
    if (rate === workload.rate) figures.set(columns.atRate(rate), p50);
    for (const ms of tails) if (p99 <= ms) figures.set(columns.tail(ms), rate);
    if (p50 > Math.max(...tails)) return;
  }
}

async function measureStreams(measured: Measured): Promise<void> {
  const { driver, figures, headers, method, peer, target } = measured;
  const { isAgent, tokens } = method;
  const base = { port: peer.port, headers, api: target.api ?? "chat", isAgent, tokens };
  // This compiles the code before the measurement. So few streams do not change the memory of an idle process.
  await driver.streams({ ...base, streams: 10, seconds: 2, tokens: 25 });
  const loads = async (): Promise<void> => {
    await driver.streams({ ...base, streams: 64, seconds: streamWarmUpSeconds });
    for (const streams of method.streams) {
      await cell(measured, `${streams} streams`, async () => {
        const before = peer.cpuMicros();
        // A single stream has short answers, so that there are enough first tokens.
        const load = { ...base, streams, ...(streams === 1 && { tokens: 5 }) };
        const done = await driver.streams({ ...load, seconds: 2 * method.seconds });
        figures
          .set(columns.first(streams), done.p50)
          .set(columns.firstTail(streams), done.p99)
          .set(columns.token(streams), (peer.cpuMicros() - before) / done.tokens)
          .set(columns.driver, done.cpuMicros / (done.seconds * 1e6));
      });
    }
  };
  await watchMemory(measured, loads, (time) =>
    driver.streams({ ...base, streams: 64, seconds: time }),
  );
  const [idle = NaN, loaded = NaN] = [columns.idle, columns.loaded].map((name) =>
    figures.get(name),
  );
  figures.set(columns.perStream, ((loaded - idle) * 1024) / Math.max(...method.streams));
}

/** `steady`: the load during which the growth is read. */
async function watchMemory(
  measured: Measured,
  loads: () => Promise<void>,
  steady: (seconds: number) => Promise<unknown>,
): Promise<void> {
  const { figures, method, peer } = measured;
  figures.set(columns.idle, peer.rssMiB());
  const samples: number[] = [];
  const sampling = setInterval(() => samples.push(peer.rssMiB()), sampleMs);
  try {
    await loads();
    await cell(measured, "steady load", async () => {
      const first = samples.length;
      await steady(steadySeconds);
      const half = Math.floor((first + samples.length) / 2);
      const growth = mean(samples.slice(half)) - mean(samples.slice(first, half));
      figures.set(columns.growth, (growth / (steadySeconds / 2)) * 60);
    });
  } finally {
    clearInterval(sampling);
  }
  figures.set(columns.loaded, Math.max(...samples));
  await sleep(method.restMs);
  figures.set(columns.after, peer.rssMiB());
}

/** A cell with failed answers has no figure. */
async function cell(
  { faults }: Measured,
  name: string,
  measure: () => Promise<void>,
): Promise<void> {
  try {
    await measure();
  } catch (error) {
    faults.push(`${name}: ${String(error)}`);
  }
}

function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}
