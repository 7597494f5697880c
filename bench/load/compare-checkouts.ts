/**
 * Compares the CPU time per request of this checkout with that of another one, for example of an older commit. Two
 * gateways of each run at the same time on core 0 (V8 optimizes every process a little differently), and get the load
 * in turn, in slices of a few seconds or less, so that noise of the machine hits all of them alike.
 *
 *   node bench/load/compare-checkouts.ts --other FOLDER [--workload node|mcp|chat] [--rounds 12]
 *
 * Both checkouts must have been built (`node .ci/build.ts`). With `chat`, the CPU time is that per token.
 */
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { runStreams } from "./chat-client.ts";
import { load } from "./client.ts";
import { statelessHeaders, toolCalls } from "./mcp-calls.ts";
import { chatPipeline, mcpPipeline, nodePipeline } from "./pipelines.ts";
import { startPeer, type Peer } from "./process.ts";
import { startSluice } from "./start-sluice.ts";
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

interface Workload {
  readonly mock: string;
  readonly unit: string;
  readonly sliceSeconds: number;
  /** Returns pipeline.yaml. Files of the gateway go to `folder`. */
  readonly pipeline: (folder: string, backendPort: number) => string;
  /** Resolves to the number of units that were answered. Rejects if an answer is wrong. */
  readonly run: (port: number, authorization: string, seconds: number) => Promise<number>;
}

const requests = (
  path: string,
  headers: readonly string[],
  bodies: readonly string[],
): Workload["run"] =>
  async function run(port, authorization, seconds) {
    const all = { path, headers: [authorization, ...headers], bodies };
    return (await load({ ...all, port, seconds, connections: 32 })).requests;
  };

const workloads: Readonly<Record<string, Workload>> = {
  node: {
    mock: "mock-node.ts",
    unit: "request",
    sliceSeconds: 0.6,
    pipeline: (folder, port) => nodePipeline({}, folder, `http://127.0.0.1:${port}`),
    run: requests("/v1/ledger/rpc", [], requestBodies(5_000)),
  },
  mcp: {
    mock: "mock-node.ts",
    unit: "call",
    sliceSeconds: 0.6,
    pipeline: (folder) => mcpPipeline({}, folder),
    run: requests("/mcp", statelessHeaders, toolCalls("2026-07-28")),
  },
  chat: {
    mock: "mock-model.ts",
    unit: "token",
    sliceSeconds: 4,
    pipeline: (folder, port) => chatPipeline({}, folder, `http://127.0.0.1:${port}`),
    async run(port, authorization, seconds) {
      const headers = [authorization];
      const options = { port, api: "chat" as const, headers, streams: 300, seconds, tokens: 50 };
      const { started, completed, tokens } = await runStreams(options);
      if (completed < started) throw new Error(`${completed} of ${started} streams completed`);
      return tokens;
    },
  },
};
const workload = workloads[values.workload];
if (workload === undefined) throw new Error(`unknown workload ${values.workload}`);
const { mock, unit, sliceSeconds, pipeline, run } = workload;

interface Measured {
  readonly root: string;
  readonly peer: Peer;
  readonly authorization: string;
  cpuMicros: number;
  units: number;
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
  const command = [process.execPath, join(import.meta.dirname, mock)];
  const backend = stack.use(await startPeer(command, { core: 1 }));
  const all: Measured[] = [];
  for (const [index, root] of roots.entries()) {
    const measured = await start(root, join(folder, String(index)), backend.port);
    stack.use(measured.peer);
    await run(measured.peer.port, measured.authorization, warmUpSeconds);
    all.push(measured);
  }
  for (let round = 0; round < rounds; round++) {
    for (let turn = 0; turn < all.length; turn++) await slice(all[(round + turn) % all.length]!);
  }
  print(all);
}

async function start(root: string, own: string, backendPort: number): Promise<Measured> {
  const { peer, headers } = await startSluice(pipeline(own, backendPort), own, 0, root);
  return { root, peer, authorization: headers.join(), cpuMicros: 0, units: 0 };
}

async function slice(measured: Measured): Promise<void> {
  const { peer, authorization } = measured;
  const before = peer.cpuMicros();
  measured.units += await run(peer.port, authorization, sliceSeconds);
  measured.cpuMicros += peer.cpuMicros() - before;
}

function print(all: readonly Measured[]): void {
  for (const { root, cpuMicros, units } of all) {
    console.log(`${root}: ${(cpuMicros / units).toFixed(1)} µs per ${unit}`);
  }
  const perUnit = (root: string): number => {
    const list = all.filter((each) => each.root === root);
    const cpuMicros = list.reduce((sum, each) => sum + each.cpuMicros, 0);
    return cpuMicros / list.reduce((sum, each) => sum + each.units, 0);
  };
  const ratio = perUnit(here) / perUnit(values.other ?? "");
  console.log(`this checkout needs ${ratio.toFixed(3)} of the CPU time of the other one`);
}
