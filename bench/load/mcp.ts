/**
 * Measures `tools/call` per second and its latency, side by side in one run: `/mcp` with all features on, the official SDK's server in
 * both of its modes, and a bare fastify route. The peer runs on core 0, the load on core 1.
 *
 *   node bench/load/mcp.ts [--connections 64 --connections 256] [--seconds 3] [--rounds 3] [--only sluice]
 */
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { builtSluice } from "./built-package.ts";
import { load, type LoadResult } from "./client.ts";
import { mcpPipeline } from "./pipelines.ts";
import { startPeer, type Peer } from "./process.ts";
import { acceptMcp as accept, statelessHeaders, toolCalls, type Revision } from "./mcp-calls.ts";

const { values } = parseArgs({
  options: {
    connections: { type: "string", multiple: true, default: ["64", "256"] },
    seconds: { type: "string", default: "3" },
    rounds: { type: "string", default: "3" },
    only: { type: "string", multiple: true },
    // This script sets it for the process that makes the load.
    drive: { type: "string" },
  },
});
const seconds = Number(values.seconds);
/** After this time V8 has compiled most hot code. After 1.5 s its compiler still takes some µs of each request. */
const warmUpSeconds = 5;
/** Calls per second at which the latency is measured, in an open loop. */
const latencyRate = 1_000;
/** The row with which the others are compared. */
const yardstick = "bare fastify route";
const here = import.meta.dirname;
const root = join(here, "../..");
const node = process.execPath;

interface Started {
  readonly peer: Peer;
  readonly headers: readonly string[];
}
interface Target {
  readonly name: string;
  readonly revision: Revision;
  start(folder: string): Promise<Started>;
}
interface Figures {
  readonly perSecond: number;
  readonly cpuMicros: number;
  /** Milliseconds, at `latencyRate`. */
  readonly p99: number;
}
interface Drive {
  readonly port: number;
  readonly headers: readonly string[];
  readonly revision: Revision;
  readonly connections: number;
  readonly seconds: number;
  readonly rate?: number;
}

const targets: readonly Target[] = [
  {
    name: yardstick,
    revision: "2025-11-25",
    start: async () => ({ peer: await peer("mcp-fastify.ts"), headers: [accept] }),
  },
  {
    name: "sluice, stateless (2026-07-28)",
    revision: "2026-07-28",
    start: (folder) => sluice(folder, () => Promise.resolve(statelessHeaders)),
  },
  {
    name: "sluice, stateless, metering off",
    revision: "2026-07-28",
    start: (folder) => sluice(folder, () => Promise.resolve(statelessHeaders), "free"),
  },
  {
    name: "sluice, in a session (2025-11-25)",
    revision: "2025-11-25",
    start: (folder) => sluice(folder, sessionHeaders),
  },
  {
    name: "official SDK, one server per session",
    revision: "2025-11-25",
    async start() {
      const started = await peer("mcp-sdk.ts", "session");
      return { peer: started, headers: await sessionHeaders(started.port, []) };
    },
  },
  {
    name: "official SDK, one server per request",
    revision: "2025-11-25",
    start: async () => ({ peer: await peer("mcp-sdk.ts", "request"), headers: [accept] }),
  },
];

if (values.drive === undefined) await main();
else await drive(JSON.parse(values.drive) as Drive);

function peer(file: string, ...args: string[]): Promise<Peer> {
  return startPeer([node, join(here, "peers", file), ...args], { core: 0 });
}

/** Authentication, limits, metering and the access log are on. */
async function sluice(
  folder: string,
  more: (port: number, headers: readonly string[]) => Promise<readonly string[]>,
  meter: "meter" | "free" = "meter",
): Promise<Started> {
  const file = join(folder, "pipeline.yaml");
  writeFileSync(file, mcpPipeline(folder, meter));
  const { id } = command(file, "workspaces", "create", "--name", "bench", "--plan", "enterprise");
  const { key } = command(file, "keys", "create", "--workspace", id ?? "");
  const start = [...builtSluice(), "start", "--json", "--config", file];
  const env = { PORT: "0", ADMIN_PORT: "0" };
  const started = await startPeer(start, { core: 0, env });
  const authorization = `authorization: Bearer ${key}`;
  return {
    peer: started,
    headers: [authorization, ...(await more(started.port, [authorization]))],
  };
}

function command(file: string, ...args: string[]): Readonly<Record<string, string>> {
  const whole = [join(root, "src/main.ts"), ...args, "--json", "--config", file];
  const result = spawnSync(node, whole, { encoding: "utf8" });
  if (result.status !== 0) throw new Error(result.stderr);
  return JSON.parse(result.stdout) as Record<string, string>;
}

async function sessionHeaders(port: number, headers: readonly string[]): Promise<string[]> {
  const sent = Object.fromEntries([...headers, accept].map((line) => line.split(": ")));
  const answer = await fetch(`http://127.0.0.1:${port}/mcp`, {
    method: "POST",
    headers: { ...sent, "content-type": "application/json" },
    body: JSON.stringify({
      jsonrpc: "2.0",
      id: 0,
      method: "initialize",
      params: {
        protocolVersion: "2025-11-25",
        capabilities: {},
        clientInfo: { name: "bench", version: "1" },
      },
    }),
  });
  await answer.text();
  const session = `mcp-session-id: ${answer.headers.get("mcp-session-id") ?? ""}`;
  return [accept, session, "mcp-protocol-version: 2025-11-25"];
}

async function main(): Promise<void> {
  const { only } = values;
  const wanted = targets.filter(
    ({ name }) =>
      name === yardstick || only === undefined || only.some((part) => name.includes(part)),
  );
  for (const connections of values.connections.map(Number)) {
    const results = new Map<string, Figures[]>(wanted.map(({ name }) => [name, []]));
    for (let round = 0; round < Number(values.rounds); round++) {
      for (const target of wanted) {
        results.get(target.name)?.push(await measure(target, connections));
      }
    }
    print(connections, results);
  }
}

async function measure(target: Target, connections: number): Promise<Figures> {
  const folder = mkdtempSync(join(tmpdir(), "sluice-bench-"));
  try {
    const { peer: started, headers } = await target.start(folder);
    await using _ = started;
    const options = { port: started.port, headers, revision: target.revision, connections };
    driveLoad({ ...options, seconds: warmUpSeconds });
    const before = started.cpuMicros();
    const { requests, seconds: took, statuses, errors } = driveLoad({ ...options, seconds });
    if (errors > 0 || Object.keys(statuses).join() !== "200") {
      throw new Error(`${target.name}: ${JSON.stringify(statuses)}, ${errors} errors`);
    }
    const cpuMicros = (started.cpuMicros() - before) / requests;
    const { p99 } = driveLoad({ ...options, seconds, rate: latencyRate });
    return { perSecond: requests / took, cpuMicros, p99 };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** A separate process on the other core makes the load. */
function driveLoad(options: Drive): LoadResult {
  const args = ["-c", "1", node, import.meta.filename, "--drive", JSON.stringify(options)];
  const result = spawnSync("taskset", args, {
    encoding: "utf8",
    stdio: ["ignore", "pipe", "inherit"],
  });
  return JSON.parse(result.stdout) as LoadResult;
}

async function drive({ revision, ...options }: Drive): Promise<void> {
  console.log(
    JSON.stringify(await load({ ...options, path: "/mcp", bodies: toolCalls(revision) })),
  );
}

function print(connections: number, results: ReadonlyMap<string, readonly Figures[]>): void {
  const median = (list: readonly Figures[], of: (figures: Figures) => number): number =>
    list.map(of).toSorted((a, b) => a - b)[Math.floor(list.length / 2)] ?? Number.NaN;
  const base = median(results.get(yardstick) ?? [], (f) => f.perSecond);
  const columns = [
    `${connections} connections`,
    "calls/s",
    "of the bare route",
    "CPU µs/call",
    "p99 ms",
  ];
  console.log(`\n| ${columns.join(" | ")} |\n|${"---|".repeat(columns.length)}`);
  for (const [name, list] of results) {
    const perSecond = median(list, (f) => f.perSecond);
    const cpu = median(list, (f) => f.cpuMicros).toFixed(1);
    const p99 = median(list, (f) => f.p99).toFixed(2);
    console.log(
      `| ${name} | ${perSecond.toFixed(0)} | ${(perSecond / base).toFixed(2)} | ${cpu} | ${p99} |`,
    );
  }
}
