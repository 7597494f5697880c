/**
 * Measures many streams of 50 tokens per second through Sluice and its peers, side by side in one run: the time added
 * to the first token, the CPU time of the proxy's process per token and per stream, the memory per stream, and the
 * number of streams that completed. The proxy runs on core 0. The model and the client, one process each, share core 1.
 *
 *   node bench/load/chat.ts [--streams 500 --streams 1000] [--seconds 8] [--tokens 100] [--rounds 1] [--agent] [--only sluice]
 */
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { once } from "node:events";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { parseArgs } from "node:util";
import { runStreams, type StreamsOptions, type StreamsResult } from "./chat-client.ts";
import { chatTargets, yardstick, type ChatTarget } from "./chat-targets.ts";
import { startPeer, type Peer } from "./process.ts";

const { values } = parseArgs({
  options: {
    streams: { type: "string", multiple: true, default: ["500", "1000"] },
    seconds: { type: "string", default: "8" },
    tokens: { type: "string", default: "100" },
    rounds: { type: "string", default: "1" },
    // The traffic of agents instead of short questions.
    agent: { type: "boolean", default: false },
    only: { type: "string", multiple: true },
    // This script sets it for the process that makes the load.
    drive: { type: "string" },
  },
});
const seconds = Number(values.seconds);
const tokens = Number(values.tokens);
const loadCore = "1";
const node = process.execPath;
const sampleMs = 100;

interface Figures {
  readonly result: StreamsResult;
  /** User and system time of the whole process. */
  readonly cpuMicros: number;
  readonly idleMiB: number;
  readonly peakMiB: number;
}

if (values.drive === undefined) await main();
else console.log(JSON.stringify(await runStreams(JSON.parse(values.drive) as StreamsOptions)));

async function main(): Promise<void> {
  const wanted = chatTargets.filter(
    ({ name }, index) =>
      // The others add to the first one.
      index === 0 || values.only === undefined || values.only.some((part) => name.includes(part)),
  );
  for (const { name, missing } of wanted) {
    if (missing !== undefined) console.log(`${name}: skipped, ${missing}`);
  }
  const targets = wanted.filter(({ missing }) => missing === undefined);
  await using model = await startPeer([node, join(import.meta.dirname, "mock-model.ts")], {
    core: Number(loadCore),
  });
  for (const streams of values.streams.map(Number)) {
    const results = new Map<string, Figures[]>(targets.map(({ name }) => [name, []]));
    for (let round = 0; round < Number(values.rounds); round++) {
      for (const target of targets) {
        results.get(target.name)?.push(await measure(target, model, streams));
      }
    }
    print(streams, results);
  }
}

async function measure(target: ChatTarget, model: Peer, streams: number): Promise<Figures> {
  const folder = mkdtempSync(join(tmpdir(), "sluice-bench-"));
  try {
    const { peer, headers } = await target.start(model, folder);
    await using _ = peer;
    const options = {
      port: peer.port,
      api: target.api ?? "chat",
      headers,
      tokens,
      isAgent: values.agent,
    };
    // This compiles the code before the measurement. So few streams do not change the memory of an idle process.
    await drive({ ...options, streams: 10, seconds: 1.5, tokens: 25 });
    const idleMiB = peer.rssMiB();
    let peakMiB = idleMiB;
    const sampling = setInterval(() => (peakMiB = Math.max(peakMiB, peer.rssMiB())), sampleMs);
    const before = peer.cpuMicros();
    try {
      const result = await drive({ ...options, streams, seconds });
      return { result, cpuMicros: peer.cpuMicros() - before, idleMiB, peakMiB };
    } finally {
      clearInterval(sampling);
    }
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** A separate process on the model's core makes the load. */
async function drive(options: StreamsOptions): Promise<StreamsResult> {
  const args = ["-c", loadCore, node, import.meta.filename, "--drive", JSON.stringify(options)];
  const child = spawn("taskset", args, { stdio: ["ignore", "pipe", "inherit"] });
  const [output] = await Promise.all([text(child.stdout), once(child, "close")]);
  return JSON.parse(output) as StreamsResult;
}

function print(streams: number, results: ReadonlyMap<string, readonly Figures[]>): void {
  const median = (name: string, of: (figures: Figures) => number): number => {
    const list = (results.get(name) ?? []).map(of).toSorted((a, b) => a - b);
    return list[Math.floor(list.length / 2)] ?? NaN;
  };
  const direct = chatTargets[0]?.name ?? "";
  const perToken = ({ cpuMicros, result }: Figures): number => cpuMicros / result.tokens;
  const columns = [
    `${streams} streams`,
    "completed",
    "tokens/s",
    "first token p50 ms",
    "added p50",
    "p99 ms",
    "added p99",
    "CPU µs/token",
    "ratio to fastify proxy",
    "CPU ms/stream",
    "RSS idle, peak MiB",
    "RSS KiB/stream",
  ];
  console.log(`\n| ${columns.join(" | ")} |\n|${"---|".repeat(columns.length)}`);
  for (const [name, list] of results) {
    const completed = list.reduce((sum, { result }) => sum + result.completed, 0);
    const started = list.reduce((sum, { result }) => sum + result.started, 0);
    const p50 = median(name, ({ result }) => result.p50);
    const p99 = median(name, ({ result }) => result.p99);
    const cpu = median(name, perToken);
    const idle = median(name, ({ idleMiB }) => idleMiB);
    const peak = median(name, ({ peakMiB }) => peakMiB);
    const cells = [
      name,
      `${completed} of ${started}`,
      median(name, ({ result }) => result.tokens / result.seconds).toFixed(0),
      p50.toFixed(2),
      (p50 - median(direct, ({ result }) => result.p50)).toFixed(2),
      p99.toFixed(2),
      (p99 - median(direct, ({ result }) => result.p99)).toFixed(2),
      cpu.toFixed(1),
      (cpu / median(yardstick, perToken)).toFixed(2),
      median(name, (f) => f.cpuMicros / 1000 / f.result.started).toFixed(2),
      `${idle.toFixed(0)}, ${peak.toFixed(0)}`,
      (((peak - idle) * 1024) / streams).toFixed(1),
    ];
    console.log(`| ${cells.join(" | ")} |`);
  }
  for (const [name, list] of results) {
    const faulty = list.filter(({ result }) => result.completed < result.started);
    for (const { result } of faulty) console.log(`\n${name}: ${JSON.stringify(result.faults)}`);
  }
  console.log(
    `\nmedian of ${values.rounds} rounds of ${seconds} s; every stream ${tokens} tokens at 50 per second`,
  );
}
