/**
 * Compares the CPU time per request of this checkout with that of another one, for example of an older commit. Two
 * gateways of each run at the same time on core 0, and get the load in turn, in slices of less than a second. Noise of
 * the machine therefore hits all of them alike. Two of each, because V8 optimizes every process a little differently.
 *
 *   node bench/load/compare-checkouts.ts --other FOLDER [--workload node|mcp] [--rounds 12]
 *
 * Both checkouts must have been built (`node .ci/build.ts`).
 */
import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { load, type LoadOptions } from "./client.ts";
import { issueKey } from "./key.ts";
import { statelessHeaders, toolCalls } from "./mcp-calls.ts";
import { mcpPipeline, nodePipeline } from "./pipelines.ts";
import { startPeer, type Peer } from "./process.ts";
import { requestBodies } from "./workload.ts";

const { values } = parseArgs({
  options: {
    other: { type: "string" },
    workload: { type: "string", default: "node" },
    rounds: { type: "string", default: "12" },
  },
});
if (values.other === undefined) throw new Error("missing --other FOLDER");

const here = join(import.meta.dirname, "../..");
const warmUpSeconds = 8;
const sliceSeconds = 0.6;

const workloads = {
  node: {
    pipeline: (folder: string) => nodePipeline({}, folder),
    request: { path: "/v1/ledger/rpc", headers: [], bodies: requestBodies(5_000) },
  },
  mcp: {
    pipeline: (folder: string) => mcpPipeline(folder),
    request: { path: "/mcp", headers: statelessHeaders, bodies: toolCalls("2026-07-28") },
  },
} as const;
const workload = workloads[values.workload === "mcp" ? "mcp" : "node"];

interface Measured {
  readonly root: string;
  readonly peer: Peer;
  readonly options: LoadOptions;
  cpuMicros: number;
  requests: number;
}

const folder = mkdtempSync(join(tmpdir(), "sluice-bench-"));
// The load generator, which is this process, must not disturb the gateways.
spawnSync("taskset", ["-pc", "1", String(process.pid)]);
try {
  await compare([values.other, here, values.other, here], Number(values.rounds));
} finally {
  rmSync(folder, { recursive: true, force: true });
}

async function compare(roots: readonly string[], rounds: number): Promise<void> {
  await using stack = new AsyncDisposableStack();
  const mock = [process.execPath, join(import.meta.dirname, "mock-node.ts")];
  const upstream = stack.use(await startPeer(mock, { core: 1 }));
  const all: Measured[] = [];
  for (const [index, root] of roots.entries()) {
    const measured = await start(root, join(folder, String(index)), upstream.port);
    stack.use(measured.peer);
    await load({ ...measured.options, seconds: warmUpSeconds });
    all.push(measured);
  }
  for (let round = 0; round < rounds; round++) {
    for (let turn = 0; turn < all.length; turn++) await slice(all[(round + turn) % all.length]!);
  }
  print(all);
}

async function start(root: string, data: string, nodePort: number): Promise<Measured> {
  const file = `${data}.yaml`;
  mkdirSync(data);
  writeFileSync(file, workload.pipeline(data));
  const env = {
    DATA_DIR: join(data, "store"),
    PORT: "0",
    ADMIN_PORT: "0",
    LEDGER_RPC_URL: `http://127.0.0.1:${nodePort}`,
  };
  const key = issueKey(file, env, root);
  const command = [process.execPath, join(root, "dist/src/main.js"), "start", "--json"];
  const peer = await startPeer([...command, "--config", file], { core: 0, env });
  const headers = [`authorization: Bearer ${key}`, ...workload.request.headers];
  const options = { ...workload.request, headers, port: peer.port, connections: 32, seconds: 0 };
  return { root, peer, options, cpuMicros: 0, requests: 0 };
}

async function slice(measured: Measured): Promise<void> {
  const { peer, options } = measured;
  const before = peer.cpuMicros();
  const { requests, errors, statuses } = await load({ ...options, seconds: sliceSeconds });
  if (errors > 0 || Object.keys(statuses).join() !== "200") {
    throw new Error(`${measured.root}: ${JSON.stringify(statuses)}, ${errors} errors`);
  }
  measured.cpuMicros += peer.cpuMicros() - before;
  measured.requests += requests;
}

function print(all: readonly Measured[]): void {
  for (const { root, cpuMicros, requests } of all) {
    console.log(`${root}: ${(cpuMicros / requests).toFixed(1)} µs per request`);
  }
  const perRequest = (root: string): number => {
    const list = all.filter((each) => each.root === root);
    const cpuMicros = list.reduce((sum, each) => sum + each.cpuMicros, 0);
    return cpuMicros / list.reduce((sum, each) => sum + each.requests, 0);
  };
  const ratio = perRequest(here) / perRequest(values.other ?? "");
  console.log(`this checkout needs ${ratio.toFixed(3)} of the CPU time of the other one`);
}
