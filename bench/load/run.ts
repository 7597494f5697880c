/**
 * Measures the node-RPC workload with Sluice and its peers, side by side in one run. Throughput is measured in a closed
 * loop, latency at a fixed rate. CPU per request comes from the kernel's accounting of the peer's process; a noisy
 * machine distorts it least. The peer runs on core 0. The mock node and the load share core 1.
 *
 *   npm run bench -- [--seconds 5] [--rounds 3] [--connections 32] [--only sluice]
 *   npm run bench -- --start   (start, memory and size: bench/start/run.ts)
 *   npm run bench -- --replicas  (gateways that share PostgreSQL and Redis: bench/replicas/run.ts)
 *   npm run bench -- --follow  (many clients of chainHead_v1_follow: bench/ws/run.ts)
 *   npm run bench -- --archive  (reads of archive_v1_storage: bench/ws/archive.ts)
 *   npm run bench -- --dashboard  (10,000 keys and a year of charges: bench/dashboard/run.ts)
 *   npm run bench -- --plot    (measures nothing, and draws the plots of bench/README.md)
 */
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { measureDashboard } from "../dashboard/run.ts";
import { writePlots } from "../plot.ts";
import { measureReplicas } from "../replicas/run.ts";
import { measureStarts } from "../start/run.ts";
import { builtSluice } from "./built-package.ts";
import { load, type LoadResult } from "./client.ts";
import { issueKey } from "./key.ts";
import { nodePipeline, type NodeVariant } from "./pipelines.ts";
import { measureArchiveReads } from "../ws/archive.ts";
import { measureFollows } from "../ws/run.ts";
import { freePort, listening } from "./ports.ts";
import { startPeer, type Peer } from "./process.ts";
import { requestBodies } from "./workload.ts";

const { values } = parseArgs({
  options: {
    seconds: { type: "string", default: "4" },
    rounds: { type: "string", default: "3" },
    rate: { type: "string", default: "3000" },
    connections: { type: "string", default: "32" },
    only: { type: "string", multiple: true },
    plot: { type: "boolean", default: false },
    start: { type: "boolean", default: false },
    replicas: { type: "boolean", default: false },
    follow: { type: "boolean", default: false },
    archive: { type: "boolean", default: false },
    dashboard: { type: "boolean", default: false },
    folder: { type: "string" },
    // This script sets it for the process that makes the load.
    drive: { type: "string" },
  },
});
const seconds = Number(values.seconds);
const connections = Number(values.connections);
/** After this time V8 has compiled most hot code. After 1.5 s its compiler still takes some µs of each request. */
const warmUpSeconds = 5;
const gatewayCore = 0;
const loadCore = 1;
const here = import.meta.dirname;

interface Target {
  readonly name: string;
  readonly path: string;
  start(nodePort: number, folder: string): Promise<{ peer: Peer; headers: readonly string[] }>;
}

interface Figures {
  readonly perSecond: number;
  readonly cpuMicros: number;
  readonly p50: number;
  readonly p99: number;
  readonly rss: number;
}

const node = process.execPath;
const nodeUrl = (port: number): string => `http://127.0.0.1:${port}`;

function peerTarget(name: string, file: string): Target {
  return {
    name,
    path: "/v1/ledger/rpc",
    start: async (nodePort) => ({
      peer: await startPeer([node, join(here, "peers", file), nodeUrl(nodePort)], {
        core: gatewayCore,
      }),
      headers: [],
    }),
  };
}

/** All features are on unless a variant turns them off: keys, limits, metering with fsync, an access log in a file. */
function sluice(name: string, variant: NodeVariant): Target {
  return {
    name,
    path: "/v1/ledger/rpc",
    async start(nodePort, folder) {
      const file = join(folder, `${name.replaceAll(/\W+/g, "-")}.yaml`);
      const data = join(folder, `data-${name.replaceAll(/\W+/g, "-")}`);
      writeFileSync(file, nodePipeline(variant, folder));
      const env = { DATA_DIR: data, PORT: "0", ADMIN_PORT: "0", LEDGER_RPC_URL: nodeUrl(nodePort) };
      const key = issueKey(file, env);
      const command = [...builtSluice(), "start", "--json", "--config", file];
      const peer = await startPeer(command, { core: gatewayCore, env });
      return { peer, headers: [`authorization: Bearer ${key}`] };
    },
  };
}

const nginx: Target = {
  name: "nginx proxy_pass",
  path: "/v1/ledger/rpc",
  async start(nodePort, folder) {
    const port = await freePort();
    const file = join(folder, "nginx.conf");
    writeFileSync(
      file,
      `daemon off; worker_processes 1; pid ${folder}/nginx.pid; error_log ${folder}/nginx.err;
      events { worker_connections 4096; }
      http {
        access_log ${folder}/nginx.log; keepalive_requests 1000000;
        client_body_temp_path ${folder}; proxy_temp_path ${folder}; fastcgi_temp_path ${folder};
        uwsgi_temp_path ${folder}; scgi_temp_path ${folder};
        upstream node { server 127.0.0.1:${nodePort}; keepalive 256; keepalive_requests 1000000; }
        server { listen 127.0.0.1:${port};
          location /v1/ledger/rpc { proxy_pass http://node/; proxy_http_version 1.1; proxy_set_header Connection ""; }
        }
      }`,
    );
    const peer = await startPeer(["nginx", "-c", file], { core: gatewayCore, port });
    await listening(port);
    return { peer, headers: [] };
  },
};

const cacheOff = { cacheBytes: 0, singleFlight: false };
const hasNginx = spawnSync("nginx", ["-v"]).error === undefined;
/** The node without a gateway. The latency of the others is added to this one. */
const direct: Target = {
  name: "the mock node itself",
  path: "/",
  start: async () => ({
    peer: await startPeer([node, join(here, "mock-node.ts")], { core: gatewayCore }),
    headers: [],
  }),
};

const targets: Target[] = [
  direct,
  peerTarget("node:http answering itself", "echo.ts"),
  ...(hasNginx ? [nginx] : []),
  peerTarget("raw node:http + undici", "raw-proxy.ts"),
  peerTarget("bare fastify + @fastify/http-proxy", "fastify-proxy.ts"),
  sluice("sluice, cache off", { upstream: cacheOff }),
  sluice("sluice, cache off, charges async", {
    upstream: cacheOff,
    metering: { durability: "async" },
  }),
  sluice("sluice, cache off, metering off", { upstream: cacheOff, meter: "free" }),
  sluice("sluice, cache on", {}),
];

if (values.drive !== undefined) await drive(values.drive);
else if (values.plot) writePlots();
else if (values.start) await measureStarts();
else if (values.replicas) await measureReplicas(values.only);
else if (values.follow) await measureFollows();
else if (values.archive) await measureArchiveReads();
else if (values.dashboard) await measureDashboard(values.folder);
else await main();

async function main(): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "sluice-bench-"));
  const wanted = targets.filter(
    (target) => values.only === undefined || values.only.some((name) => target.name.includes(name)),
  );
  const results = new Map<string, Figures[]>(wanted.map(({ name }) => [name, []]));
  try {
    await using mock = await startPeer([node, join(here, "mock-node.ts")], { core: loadCore });
    for (let round = 0; round < Number(values.rounds); round++) {
      for (const target of wanted)
        results.get(target.name)?.push(await measure(target, mock, folder));
    }
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
  print(results);
}

async function measure(target: Target, mock: Peer, folder: string): Promise<Figures> {
  const { peer, headers } = await target.start(mock.port, folder);
  await using _ = peer;
  const options = { port: peer.port, path: target.path, headers, connections };
  driveLoad({ ...options, seconds: warmUpSeconds });
  const before = peer.cpuMicros();
  const closed = driveLoad({ ...options, seconds });
  const cpuMicros = (peer.cpuMicros() - before) / closed.requests;
  const rss = peer.rssMiB();
  const open = driveLoad({ ...options, seconds: Math.min(seconds, 3), rate: Number(values.rate) });
  for (const { statuses, errors } of [closed, open]) {
    if (errors > 0 || Object.keys(statuses).join() !== "200") {
      throw new Error(`${target.name}: ${JSON.stringify(statuses)}, ${errors} JSON-RPC errors`);
    }
  }
  return {
    perSecond: closed.requests / closed.seconds,
    cpuMicros,
    p50: open.p50,
    p99: open.p99,
    rss,
  };
}

type Drive = Omit<Parameters<typeof load>[0], "bodies">;

/** A separate process on the other core makes the load. */
function driveLoad(options: Drive): LoadResult {
  const args = [
    "-c",
    String(loadCore),
    node,
    import.meta.filename,
    "--drive",
    JSON.stringify(options),
  ];
  const result = spawnSync("taskset", args, {
    encoding: "utf8",
    stdio: ["ignore", "pipe", "inherit"],
  });
  return JSON.parse(result.stdout) as LoadResult;
}

async function drive(json: string): Promise<void> {
  const options = JSON.parse(json) as Drive;
  console.log(JSON.stringify(await load({ ...options, bodies: requestBodies(5_000) })));
}

function print(results: ReadonlyMap<string, readonly Figures[]>): void {
  const median = (list: readonly Figures[], of: (figures: Figures) => number): number =>
    list.map(of).toSorted((a, b) => a - b)[Math.floor(list.length / 2)] ?? Number.NaN;
  const cpuOf = (name: string): number => median(results.get(name) ?? [], (f) => f.cpuMicros);
  const fastifyCpu = cpuOf("bare fastify + @fastify/http-proxy");
  const undiciCpu = cpuOf("raw node:http + undici");
  console.log(
    "| | requests/s | CPU µs/request | ratio to fastify proxy | ratio to raw undici | p50 ms | p99 ms | RSS MiB |",
  );
  console.log("|---|---|---|---|---|---|---|---|");
  for (const [name, list] of results) {
    const cpu = median(list, (f) => f.cpuMicros);
    const cells = [
      name,
      median(list, (f) => f.perSecond).toFixed(0),
      cpu.toFixed(1),
      (cpu / fastifyCpu).toFixed(2),
      (cpu / undiciCpu).toFixed(2),
      median(list, (f) => f.p50).toFixed(2),
      median(list, (f) => f.p99).toFixed(2),
      median(list, (f) => f.rss).toFixed(0),
    ];
    console.log(`| ${cells.join(" | ")} |`);
  }
  console.log(
    `\nmedian of ${values.rounds} rounds of ${seconds} s, ${connections} connections; latency at ${values.rate}/s`,
  );
}
