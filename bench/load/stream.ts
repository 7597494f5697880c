/**
 * The encrypted stream over WebSockets: handshakes, frames as fast as they go and at the pace of a model, sessions that do
 * nothing; straight to the enclave, through a bare `ws` relay, and through Sluice with everything on. The way has core 0;
 * the enclave, the model and the clients share core 1.
 *
 *   node bench/load/stream.ts [--seconds 3] [--rounds 1] [--idle 1000] [--paced 400] [--only sluice]
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { parseArgs } from "node:util";
import { startPeer, type Peer } from "./process.ts";
import {
  frames,
  handshakes,
  openAll,
  type FramesResult,
  type StreamLoad,
} from "./stream-driver.ts";
import {
  direct,
  streamTargets,
  yardstick,
  type Backends,
  type StreamTarget,
} from "./stream-targets.ts";

const { values } = parseArgs({
  options: {
    seconds: { type: "string", default: "3" },
    rounds: { type: "string", default: "1" },
    idle: { type: "string", default: "1000" },
    paced: { type: "string", default: "400" },
    only: { type: "string", multiple: true },
    // Set by this script for the process that makes the load: what it does, and a StreamLoad.
    drive: { type: "string" },
    load: { type: "string" },
  },
});
const seconds = Number(values.seconds);
const loadCore = 1;
const node = process.execPath;

/** What a phase cost the way, beside what it did. */
interface Phase {
  readonly result: FramesResult;
  /** CPU of the way's process, microseconds a frame. */
  readonly cpu: number;
}

interface Figures {
  readonly idleKiB: number;
  readonly handshakesPerSecond: number;
  /** CPU of the way's process, microseconds. */
  readonly cpuPerHandshake: number;
  readonly burst: Phase | undefined;
  readonly paced: Phase;
}

if (values.drive === undefined) await main();
else await drive(values.drive, JSON.parse(values.load ?? "") as StreamLoad);

/** In a process of its own: prints a line when all sessions are open, waits for one, prints what came of it. */
async function drive(what: string, load: StreamLoad): Promise<void> {
  const opened = what === "handshakes" ? [] : await openAll(load);
  console.log(opened.length);
  await once(process.stdin, "data");
  if (what === "handshakes") console.log(JSON.stringify(await handshakes(load)));
  else console.log(JSON.stringify(what === "frames" ? await frames(opened, load) : 0));
  process.exit();
}

async function main(): Promise<void> {
  const targets = streamTargets.filter(
    ({ name }) =>
      [direct, yardstick].includes(name) ||
      values.only === undefined ||
      values.only.some((part) => name.includes(part)),
  );
  const here = import.meta.dirname;
  await using enclave = await startPeer([node, join(here, "mock-enclave.ts")], { core: loadCore });
  await using model = await startPeer([node, join(here, "mock-model.ts")], { core: loadCore });
  const { simulated_root: simulatedRoot } = JSON.parse(enclave.line) as { simulated_root: string };
  const results = new Map<string, Figures[]>(targets.map(({ name }) => [name, []]));
  for (let round = 0; round < Number(values.rounds); round++) {
    for (const target of targets) {
      const figures = await measure(target, { enclave, model, simulatedRoot });
      results.get(target.name)?.push(figures);
    }
  }
  print(results);
}

async function measure(target: StreamTarget, backends: Backends): Promise<Figures> {
  const folder = mkdtempSync(join(tmpdir(), "sluice-bench-"));
  try {
    const { peer, url, key } = await target.start(backends, folder);
    await using _ = peer;
    const { network, termination } = target;
    const isOwn = termination === "gateway";
    const model = isOwn ? "Bench/Echo-1" : "Bench/Paced-1";
    const one = { url, key, network, termination, model, sessions: 8, seconds, chunks: 100 };
    await run(peer, "handshakes", { ...one, seconds: 0.5 });
    const idle = await run(peer, "idle", { ...one, sessions: Number(values.idle) });
    const shaken = await run(peer, "handshakes", one);
    const handshakesPerSecond = shaken.result as number;
    const bursting = { ...one, model: "Bench/Burst-1", sessions: 16, chunks: 2000 };
    const pacing = { ...one, sessions: Number(values.paced), seconds: seconds + 2 };
    return {
      idleKiB: (idle.grownMiB * 1024) / Number(values.idle),
      handshakesPerSecond,
      cpuPerHandshake: shaken.cpuMicros / (handshakesPerSecond * seconds),
      // A model in the clear has its own pace.
      burst: isOwn ? undefined : await phase(peer, bursting),
      paced: await phase(peer, pacing),
    };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

async function phase(peer: Peer, load: StreamLoad): Promise<Phase> {
  const { result, cpuMicros } = await run(peer, "frames", load);
  // What the driver prints.
  const told = result as FramesResult;
  return { result: told, cpu: cpuMicros / told.frames };
}

interface Run {
  readonly result: unknown;
  /** Of the way's process, without the opening of the sessions. */
  readonly cpuMicros: number;
  /** What its resident memory has grown by until all sessions were open. */
  readonly grownMiB: number;
}

/** The load comes from a process of its own on the enclave's core. */
async function run(peer: Peer, what: string, load: StreamLoad): Promise<Run> {
  const own = [node, import.meta.filename, "--drive", what, "--load", JSON.stringify(load)];
  const atRest = peer.rssMiB();
  const child = spawn("taskset", ["-c", String(loadCore), ...own], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  const closed = once(child, "close");
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  await lines.next();
  const grownMiB = peer.rssMiB() - atRest;
  const before = peer.cpuMicros();
  child.stdin.write("go\n");
  const { value } = await lines.next();
  const cpuMicros = peer.cpuMicros() - before;
  await closed;
  if (value === undefined) throw new Error("the load ended without a result");
  return { result: JSON.parse(value), cpuMicros, grownMiB };
}

function print(results: ReadonlyMap<string, readonly Figures[]>): void {
  const median = (name: string, of: (figures: Figures) => number): number => {
    const list = (results.get(name) ?? []).map(of).toSorted((a, b) => a - b);
    return list[Math.floor(list.length / 2)] ?? NaN;
  };
  const columns: readonly (readonly [string, (figures: Figures) => number, number])[] = [
    ["handshakes/s", (f) => f.handshakesPerSecond, 0],
    ["CPU µs/handshake", (f) => f.cpuPerHandshake, 0],
    [
      "burst: frames/s",
      (f) => (f.burst === undefined ? NaN : f.burst.result.frames / f.burst.result.seconds),
      0,
    ],
    ["burst: CPU µs/frame", (f) => f.burst?.cpu ?? NaN, 2],
    ["paced: frames/s", (f) => f.paced.result.frames / f.paced.result.seconds, 0],
    ["paced: CPU µs/frame", (f) => f.paced.cpu, 1],
    ["KiB/idle session", (f) => f.idleKiB, 1],
  ];
  const latency: readonly (readonly [string, (figures: Figures) => number])[] = [
    ["chunk p50 ms", (f) => f.paced.result.p50],
    ["chunk p99 ms", (f) => f.paced.result.p99],
  ];
  const titles = [
    "",
    ...columns.map(([title]) => title),
    ...latency.flatMap(([title]) => [title, "added"]),
  ];
  console.log(`\n| ${titles.join(" | ")} |\n|${"---|".repeat(titles.length)}`);
  for (const name of results.keys()) {
    const cells = columns.map(([, of, digits]) => {
      const value = median(name, of);
      // The enclave itself stands on the other core: what it costs is not what a way costs.
      const ratio = name === direct ? "" : ` (${(value / median(yardstick, of)).toFixed(2)})`;
      return Number.isNaN(value) ? "" : value.toFixed(digits) + ratio;
    });
    const times = latency.flatMap(([, of]) => {
      const value = median(name, of);
      return Number.isNaN(value)
        ? ["", ""]
        : [value.toFixed(2), (value - median(direct, of)).toFixed(2)];
    });
    console.log(`| ${[name, ...cells, ...times].join(" | ")} |`);
  }
  console.log(`\nmedian of ${values.rounds} rounds; in brackets: the ratio to the ${yardstick}`);
}
