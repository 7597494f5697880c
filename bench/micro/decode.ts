/**
 * Measures the decoding of blocks and of metadata. The same real blocks are decoded beside @polkadot/types and PAPI,
 * and all answers must be equal. The event loop and the thread pool are compared by the size of the node's answer: wall
 * time, and the time for which the event loop is busy. The blocks are those of the demo, and those in ../shared if it
 * exists.
 *
 *   node bench/micro/decode.ts
 */
import { Metadata, TypeRegistry } from "@polkadot/types";
import { getDynamicBuilder, getLookupFn } from "@polkadot-api/metadata-builders";
import { decAnyMetadata, unifyMetadata } from "@polkadot-api/substrate-bindings";
import { performance } from "node:perf_hooks";
import { Bench } from "tinybench";
import { systemClock } from "../../src/base/clock.ts";
import { openComputePool } from "../../src/compute/pool.ts";
import { decodeText, type DecodeJob } from "../../plugins/ledger/ledger/decode/decode-job.ts";
import { createRuntime, type Runtime } from "../../plugins/ledger/ledger/decode/runtime.ts";
import { createMetrics } from "../../src/base/metrics.ts";
import {
  demoChain,
  fixtureChain,
  fixtureSets,
  skipWithoutFixtures,
  type Chain,
} from "../../test/plugins/ledger/ledger/decode/chains.ts";
import { median } from "../load/table.ts";
import { papi, polkadotTypes, type BlockDecoder } from "./decode-others.ts";

interface Input {
  readonly extrinsics: Buffer;
  readonly events: Buffer;
}

function ours(runtime: Runtime): BlockDecoder {
  const text = (kind: "extrinsics" | "events", body: Buffer): string =>
    decodeText(runtime, kind, body.toString("latin1")) ?? "";
  return {
    extrinsics: (list) => text("extrinsics", list),
    events: (value) => text("events", value),
  };
}

function runtimeOf(bytes: Buffer): Runtime {
  const runtime = createRuntime(bytes);
  if (runtime === undefined) throw new Error("no runtime");
  return runtime;
}

function inputsOf(chain: Chain): Input[] {
  return chain.blocks
    .filter(({ events }) => events !== null)
    .map(({ result, events }) => ({
      extrinsics: Buffer.from(JSON.stringify(result.block.extrinsics)),
      events: Buffer.from(JSON.stringify(events)),
    }));
}

/** Returns medians in microseconds per call. `time`: milliseconds. */
async function measured(
  tasks: Readonly<Record<string, () => unknown>>,
  time = 400,
): Promise<Map<string, number>> {
  const bench = new Bench({ time, warmupTime: 150 });
  for (const [name, task] of Object.entries(tasks)) bench.add(name, task);
  await bench.run();
  const medians = new Map<string, number>();
  for (const { name, result } of bench.tasks) {
    if (!("latency" in result)) throw new Error(`${name} failed`);
    medians.set(name, result.latency.p50 * 1000);
  }
  return medians;
}

const shown = (n: number | undefined): string => {
  if (n === undefined) return "-";
  return n >= 100 ? n.toFixed(0) : n.toPrecision(3);
};

async function blocks(chain: Chain): Promise<void> {
  const inputs = inputsOf(chain);
  const decoders: Record<string, BlockDecoder> = {
    ours: ours(runtimeOf(Buffer.from(chain.metadata.slice(2), "hex"))),
    papi: papi(chain.metadata),
    "@polkadot/types": polkadotTypes(chain.metadata),
  };
  const answers = Object.entries(decoders).map(([name, decoder]) => ({
    name,
    text: inputs
      .map(({ extrinsics, events }) => decoder.extrinsics(extrinsics) + decoder.events(events))
      .join(),
  }));
  // PAPI reads the error of a failed dispatch by its name and encodes it without its padding.
  for (const { name, text } of answers) {
    if (text !== answers[0]?.text) console.log(`(${name} answers otherwise for ${chain.name})`);
  }
  const tasks = Object.entries(decoders).map(([name, decoder]) => [
    name,
    () => {
      for (const { extrinsics, events } of inputs) {
        decoder.extrinsics(extrinsics);
        decoder.events(events);
      }
    },
  ]);
  const medians = await measured(Object.fromEntries(tasks));
  const base = medians.get("ours") ?? 1;
  const cells = [...medians.values()].map((us) => {
    const perBlock = us / inputs.length;
    return `${shown(1e6 / perBlock)} (${shown(us / base)}×)`;
  });
  console.log(`| ${chain.name} | ${inputs.length} | ${cells.join(" | ")} |`);
}

function listOf(chain: Chain, bytes: number): Buffer {
  const all = chain.blocks.flatMap(({ result }) => result.block.extrinsics);
  const list: string[] = [];
  let size = 2;
  for (let i = 0; size < bytes; i++) {
    const raw = all[i % all.length] ?? "0x";
    list.push(raw);
    size += raw.length + 3;
  }
  return Buffer.from(JSON.stringify(list));
}

/** Returns medians in microseconds per call: wall time, and CPU time of this thread. The calls do not overlap. */
async function busy(
  calls: number,
  task: () => Promise<unknown> | unknown,
): Promise<{ wall: number; cpu: number }> {
  const rounds: { wall: number; cpu: number }[] = [];
  for (let i = 0; i < 12; i++) {
    const before = process.threadCpuUsage();
    const start = performance.now();
    for (let call = 0; call < calls; call++) await task();
    const wall = performance.now() - start;
    const { user, system } = process.threadCpuUsage(before);
    // The first calls compile the code.
    if (i > 2) rounds.push({ wall: (wall * 1000) / calls, cpu: (user + system) / calls });
  }
  const middle = (of: "wall" | "cpu"): number => median(rounds.map((each) => each[of]));
  return { wall: middle("wall"), cpu: middle("cpu") };
}

/** Makes one string of a text that consists of pieces, which otherwise happens only when the answer is written. */
const written = (json: string): number => Buffer.from(json, "latin1").length;

async function curve(chain: Chain): Promise<void> {
  const bytes = Buffer.from(chain.metadata.slice(2), "hex");
  const shared = new SharedArrayBuffer(bytes.length);
  Buffer.from(shared).set(bytes);
  const runtime = runtimeOf(bytes);
  const compute = openComputePool({
    clock: systemClock,
    log: console,
    metrics: createMetrics(),
    threads: 1,
  });
  const module = new URL("../../plugins/ledger/ledger/decode/decode-job.ts", import.meta.url).href;
  for (const kib of [2, 16, 64, 128, 256, 512, 2048]) {
    const body = listOf(chain, kib * 1024);
    // This is long enough for a clock that counts in milliseconds.
    const calls = Math.max(16, Math.ceil(8192 / kib));
    const inline = await busy(calls, () =>
      written(decodeText(runtime, "extrinsics", body.toString("latin1")) ?? ""),
    );
    const pooled = await busy(calls, async () => {
      const moved = new Uint8Array(body);
      const input: DecodeJob = { kind: "extrinsics", runtime: 1, metadata: shared, body: moved };
      const done = await compute.run({ module, input, transfer: [moved.buffer] });
      if (!done.ok || done.bytes === undefined) throw new Error("failed");
      const { buffer, byteOffset, byteLength } = done.bytes;
      return written(Buffer.from(buffer, byteOffset, byteLength).toString("latin1"));
    });
    const cells = [inline.cpu, pooled.cpu, inline.wall, pooled.wall].map(shown);
    console.log(`| ${kib} | ${cells.join(" | ")} |`);
  }
  await compute.close();
}

async function metadata(chain: Chain): Promise<void> {
  const hex = chain.metadata as `0x${string}`;
  const bytes = Buffer.from(hex.slice(2), "hex");
  const medians = await measured({
    ours: () => runtimeOf(bytes).events,
    papi: () =>
      getDynamicBuilder(getLookupFn(unifyMetadata(decAnyMetadata(hex)))).buildStorage(
        "System",
        "Events",
      ),
    "@polkadot/types": () => {
      const registry = new TypeRegistry();
      registry.setMetadata(new Metadata(registry, hex));
    },
  });
  const cells = [...medians.values()].map((us) => `${shown(us / 1000)} ms`);
  console.log(`| ${chain.name}, ${Math.round(bytes.length / 1024)} KiB | ${cells.join(" | ")} |`);
}

const chains = [demoChain()];
if (skipWithoutFixtures === false) chains.push(...fixtureSets.map((set) => fixtureChain(set, 14)));
console.log("\nBlocks per second, extrinsics and events (ratio of time)\n");
console.log("| chain | blocks | ours | papi | @polkadot/types |");
for (const chain of chains) await blocks(chain);
console.log("\nExtrinsics by size of the node's JSON, microseconds\n");
console.log(
  "| KiB | inline: processor time of the event loop | pool: the same | inline: until the answer | pool: the same |",
);
const [demo] = chains;
if (demo !== undefined) await curve(demo);
console.log("\nMetadata 14, read\n");
for (const chain of chains) await metadata(chain);
