/**
 * Measures gateways that share one PostgreSQL and one Redis: the round trips that a request needs, the CPU time of 1 to
 * 8 gateways and of both stores, and the latency that each durability adds. Gateways and stores run on core 0. The load
 * and the mock node run on core 1.
 *
 *   npm run bench -- --replicas [--only round-trips] [--only cpu] [--only latency]
 */
import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { load, type LoadResult } from "../load/client.ts";
import { builtSluice, issueKey } from "../load/start-sluice.ts";
import { nodePipeline, type NodeVariant } from "../load/pipelines.ts";
import { startPeer, type Peer } from "../load/process.ts";
import { median } from "../load/table.ts";
import { requestBodies } from "../load/workload.ts";
import { startCommitProbe } from "./commit-probe.ts";
import { createKeys, secret, startStores, type SharedStores } from "./servers.ts";

const warmUpSeconds = 4;
const seconds = 6;
const bodies = requestBodies(5_000);

interface Gateway {
  readonly peer: Peer;
  readonly adminUrl: string;
}

interface Deployment extends AsyncDisposable {
  readonly gateways: readonly [Gateway, ...Gateway[]];
  readonly keys: readonly string[];
}

interface Configured {
  readonly file: string;
  readonly env: Readonly<Record<string, string>>;
}

export async function measureReplicas(
  only: readonly string[] = ["round-trips", "cpu", "latency"],
): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "sluice-replicas-"));
  // The stores inherit the core of this process.
  pin(0);
  await using stores = await startStores();
  // The load generator, which is this process, must not disturb the gateways.
  pin(1);
  const mockCommand = [process.execPath, join(import.meta.dirname, "../load/mock-node.ts")];
  await using mock = await startPeer(mockCommand, { core: 1 });
  try {
    const bench = new ReplicaBench(folder, stores, mock.port);
    if (only.includes("round-trips")) await bench.printRoundTrips();
    if (only.includes("cpu")) await bench.printCpu();
    if (only.includes("latency")) await bench.printLatencies();
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

class ReplicaBench {
  readonly #folder: string;
  readonly #stores: SharedStores;
  readonly #nodePort: number;
  #started = 0;

  constructor(folder: string, stores: SharedStores, nodePort: number) {
    this.#folder = folder;
    this.#stores = stores;
    this.#nodePort = nodePort;
  }

  async printRoundTrips(): Promise<void> {
    console.log("| requests/s | keys | PostgreSQL round trips per request | Redis | together |");
    console.log("| ---------- | ---- | ---------------------------------- | ----- | -------- |");
    for (const rate of [100, 1_000, 3_000]) {
      for (const count of [10, 2_000]) {
        await using deployment = await this.#deploy(1, this.#shared(), count);
        const {
          gateways: [gateway],
          keys,
        } = deployment;
        await this.#load(gateway, keys, rate, warmUpSeconds);
        const before = await roundTrips(gateway);
        const { requests } = await this.#load(gateway, keys, rate, seconds);
        const after = await roundTrips(gateway);
        const postgres = (after.postgres - before.postgres) / requests;
        const redis = (after.redis - before.redis) / requests;
        const cells = [
          rate,
          count,
          ...[postgres, redis, postgres + redis].map((n) => n.toFixed(3)),
        ];
        console.log(`| ${cells.join(" | ")} |`);
      }
    }
  }

  /** Each gateway gets the same rate, so a constant cost per request means that gateways do not disturb each other. */
  async printCpu(): Promise<void> {
    const rate = 150;
    console.log("\n| | gateways, µs | PostgreSQL, µs | Redis, µs | together, µs | ratio to one |");
    console.log("|---|---|---|---|---|---|");
    let one: number | undefined;
    for (const count of [1, 2, 4, 8]) {
      await using deployment = await this.#deploy(count, this.#shared(), 10);
      const { gateways, keys } = deployment;
      const all = (time: number): Promise<LoadResult[]> =>
        Promise.all(gateways.map((gateway) => this.#load(gateway, keys, rate, time)));
      await all(warmUpSeconds);
      const before = await this.#cpu(gateways);
      const results = await all(2 * seconds);
      const after = await this.#cpu(gateways);
      const requests = results.reduce((sum, result) => sum + result.requests, 0);
      const costs = after.map((value, index) => (value - (before[index] ?? 0)) / requests);
      const together = costs.reduce((sum, cost) => sum + cost, 0);
      one ??= together;
      const cells = [
        count,
        ...[...costs, together].map((n) => n.toFixed(0)),
        (together / one).toFixed(2),
      ];
      console.log(`| ${cells.join(" | ")} |`);
    }
  }

  async printLatencies(): Promise<void> {
    const rate = 500;
    console.log(
      "\n| durability | p50 ms | p99 ms | commit, p50 ms | commit, p99 ms | first request of a key, p50 ms |",
    );
    console.log("|---|---|---|---|---|---|");
    const { postgresUrl: postgres } = this.#stores;
    const variants: readonly (readonly [string, NodeVariant])[] = [
      ["without charges", { without: "charges" }],
      ["embedded, `settled`", {}],
      ["embedded, `async`", { metering: { durability: "async" } }],
      ["PostgreSQL, `async`", { store: { postgres }, metering: { durability: "async" } }],
      ["PostgreSQL, `settled`", { store: { postgres } }],
      ["PostgreSQL and Redis, `settled`", this.#shared()],
    ];
    for (const [name, variant] of variants) {
      await using deployment = await this.#deploy(1, variant, 110);
      const {
        gateways: [gateway],
        keys,
      } = deployment;
      const hot = keys.slice(0, 10);
      await this.#load(gateway, hot, rate, warmUpSeconds);
      await using probe =
        variant.store === undefined ? undefined : await startCommitProbe(postgres);
      const { p50, p99 } = await this.#load(gateway, hot, rate, seconds);
      const commits = [probe?.quantile(0.5), probe?.quantile(0.99)];
      const cold = keys.length > 10 ? await coldLatency(gateway, keys.slice(10)) : undefined;
      const cells = [p50, p99, ...commits, cold].map((ms) => ms?.toFixed(2) ?? "");
      console.log(`| ${[name, ...cells].join(" | ")} |`);
    }
  }

  #shared(): NodeVariant {
    const { postgresUrl: postgres, redisUrl: redis } = this.#stores;
    return { store: { postgres, ...(redis !== undefined && { redis }) } };
  }

  /** Starts gateways, each of which knows all keys. Without shared stores there is one gateway with one key. */
  async #deploy(count: number, variant: NodeVariant, keyCount: number): Promise<Deployment> {
    await using starting = new AsyncDisposableStack();
    const [first, ...more] = Array.from({ length: count }, () => this.#configure(variant));
    if (first === undefined) throw new Error("no gateway");
    const keys =
      variant.store === undefined
        ? [issueKey(first.file, first.env)]
        : await createKeys(this.#stores.postgresUrl, keyCount);
    const start = async ({ file, env }: Configured): Promise<Gateway> => {
      const command = [...builtSluice(), "start", "--json", "--config", file];
      const peer = starting.use(await startPeer(command, { core: 0, env }));
      const { admin_url: adminUrl } = JSON.parse(peer.line) as { admin_url: string };
      return { peer, adminUrl };
    };
    const gateways: [Gateway, ...Gateway[]] = [await start(first)];
    for (const each of more) gateways.push(await start(each));
    const stack = starting.move();
    return { gateways, keys, [Symbol.asyncDispose]: () => stack.disposeAsync() };
  }

  #configure(variant: NodeVariant): Configured {
    this.#started++;
    const folder = join(this.#folder, String(this.#started));
    mkdirSync(folder);
    const file = join(folder, "pipeline.yaml");
    writeFileSync(file, nodePipeline(variant, folder, `http://127.0.0.1:${this.#nodePort}`));
    return { file, env: { GATEWAY_SECRET: secret, REPLICA_NAME: `gateway-${this.#started}` } };
  }

  async #cpu(gateways: readonly Gateway[]): Promise<number[]> {
    const own = gateways.reduce((sum, { peer }) => sum + peer.cpuMicros(), 0);
    return [own, await this.#stores.postgresCpuMicros(), await this.#stores.redisCpuMicros()];
  }

  #load(
    { peer }: Gateway,
    keys: readonly string[],
    rate: number,
    time: number,
  ): Promise<LoadResult> {
    const path = "/v1/ledger/rpc";
    const options = { port: peer.port, path, headers: [], bodies, keys, rate };
    return load({ ...options, connections: 32, seconds: time });
  }
}

function pin(core: number): void {
  spawnSync("taskset", ["-pc", String(core), String(process.pid)]);
}

/** Returns the number of statements that a gateway has sent to each store. */
async function roundTrips({ adminUrl }: Gateway): Promise<{ postgres: number; redis: number }> {
  const text = await (await fetch(`${adminUrl}/metrics`)).text();
  const sum = (store: string): number =>
    [...text.matchAll(/^sluice_store_round_trips_total\{(.*)\} (\d+)$/gm)]
      .filter(([, labels]) => labels?.includes(`store="${store}"`))
      .reduce((total, [, , value]) => total + Number(value), 0);
  return { postgres: sum("postgres"), redis: sum("redis") };
}

/** Sends one request with each key. Returns the median of the times in milliseconds. */
async function coldLatency({ peer }: Gateway, keys: readonly string[]): Promise<number> {
  const times: number[] = [];
  for (const key of keys) {
    const started = performance.now();
    const response = await fetch(`http://127.0.0.1:${peer.port}/v1/ledger/rpc`, {
      method: "POST",
      headers: { "content-type": "application/json", authorization: `Bearer ${key}` },
      body: bodies[0] ?? "",
    });
    await response.text();
    times.push(performance.now() - started);
  }
  return median(times);
}
