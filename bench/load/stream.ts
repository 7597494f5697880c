/**
 * Measures the encrypted stream over WebSockets, directly to a mock enclave, through a bare `ws` relay and through
 * Sluice: handshakes, idle sessions, answers as fast as possible, and answers at the pace of a model. The measured
 * process runs on core 0. The enclave, the model and the clients share core 1.
 *
 *   node bench/load/stream.ts [--seconds 3] [--rounds 1] [--idle 1000] [--paced 200] [--only sluice]
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { parseArgs } from "node:util";
import { startPeer, type Peer } from "./process.ts";
import type { StreamLoad, StreamResult } from "./stream-load.ts";
import {
  direct,
  streamTargets,
  yardstick,
  type Backends,
  type StreamTarget,
} from "./stream-targets.ts";
import { median, table } from "./table.ts";

const { values } = parseArgs({
  options: {
    seconds: { type: "string", default: "3" },
    rounds: { type: "string", default: "1" },
    idle: { type: "string", default: "1000" },
    paced: { type: "string", default: "200" },
    only: { type: "string", multiple: true },
  },
});
const seconds = Number(values.seconds);
const idleSessions = Number(values.idle);
const here = import.meta.dirname;
const node = process.execPath;
const loadCore = 1;

interface Phase extends StreamResult {
  /** User and system time, without the opening of the sessions. */
  readonly cpuMicros: number;
  /** Growth of the resident memory while the sessions were opened. */
  readonly grownMiB: number;
}

interface Figures {
  readonly shaken: Phase;
  readonly idle: Phase;
  readonly burst: Phase;
  readonly paced: Phase;
}

const burstTokens = 2000;
const pacedTokens = 100;
/** Duration of a paced answer, at 50 tokens per second. */
const pacedMs = 2000;

type Column = readonly [title: string, digits: number, of: (figures: Figures) => number];

const columns: readonly Column[] = [
  ["handshakes/s", 0, ({ shaken }) => shaken.handshakes / shaken.seconds],
  ["CPU µs/handshake", 0, ({ shaken }) => shaken.cpuMicros / shaken.handshakes],
  ["KiB/idle session", 1, ({ idle }) => (idle.grownMiB * 1024) / idleSessions],
  ["burst: frames/s", 0, ({ burst }) => burst.frames / burst.seconds],
  ["burst: CPU µs/frame", 2, ({ burst }) => burst.cpuMicros / burst.frames],
  ["burst: CPU µs/token", 2, ({ burst }) => burst.cpuMicros / (burst.answers * burstTokens)],
  ["paced: CPU µs/frame", 1, ({ paced }) => paced.cpuMicros / paced.frames],
  ["paced: CPU µs/token", 1, ({ paced }) => paced.cpuMicros / (paced.answers * pacedTokens)],
];
const latencies: readonly Column[] = [
  ["chunk p50 ms", 2, ({ paced }) => paced.p50],
  ["chunk p99 ms", 2, ({ paced }) => paced.p99],
];

const targets = streamTargets.filter(
  ({ name }) =>
    [direct, yardstick].includes(name) ||
    values.only === undefined ||
    values.only.some((part) => name.includes(part)),
);
const results = new Map<string, Figures[]>(targets.map(({ name }) => [name, []]));
{
  await using enclave = await startPeer([node, join(here, "mock-enclave.ts")], { core: loadCore });
  await using model = await startPeer([node, join(here, "mock-model.ts")], { core: loadCore });
  const backends: Backends = { enclave, model };
  for (let round = 0; round < Number(values.rounds); round++) {
    for (const target of targets) await attempt(target, backends);
  }
}
print();

/** A target that fails has no figures. The others still have theirs. */
async function attempt(target: StreamTarget, backends: Backends): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "sluice-bench-"));
  try {
    results.get(target.name)?.push(await measure(target, backends, folder));
  } catch (error) {
    console.log(`${target.name}: FAILED, ${String(error)}`);
    process.exitCode = 1;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

async function measure(target: StreamTarget, backends: Backends, folder: string): Promise<Figures> {
  const { peer, url, key } = await target.start(backends, folder);
  await using _ = peer;
  const { network, termination } = target;
  const paced: StreamLoad = {
    phase: "answers",
    url,
    key,
    network,
    termination,
    model: "Bench/Paced-1",
    sessions: Number(values.paced),
    tokens: pacedTokens,
    answerMs: pacedMs,
    seconds: seconds + pacedMs / 1000,
  };
  const burst = { model: "Bench/Burst-1", sessions: 16, tokens: burstTokens, answerMs: 0, seconds };
  const shaken: StreamLoad = { ...paced, phase: "handshakes", sessions: 8, seconds };
  // This compiles the code of a handshake.
  await run(peer, { ...shaken, seconds: 0.5 });
  return {
    idle: await run(peer, { ...paced, phase: "idle", sessions: idleSessions }),
    shaken: await run(peer, shaken),
    burst: await run(peer, { ...paced, ...burst }),
    paced: await run(peer, paced),
  };
}

async function run(peer: Peer, load: StreamLoad): Promise<Phase> {
  const atRest = peer.rssMiB();
  const command = [node, join(here, "stream-load.ts"), JSON.stringify(load)];
  const child = spawn("taskset", ["-c", String(loadCore), ...command], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  const closed = once(child, "close");
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const ready = await lines.next();
  const grownMiB = peer.rssMiB() - atRest;
  const before = peer.cpuMicros();
  if (ready.done !== true) child.stdin.write("go\n");
  const { value } = await lines.next();
  const cpuMicros = peer.cpuMicros() - before;
  await closed;
  if (value === undefined) throw new Error(`no result of the phase ${load.phase}, ${load.model}`);
  // stream-load.ts prints this.
  return { ...(JSON.parse(value) as StreamResult), cpuMicros, grownMiB };
}

function medianOf(name: string, of: (figures: Figures) => number): number {
  return median((results.get(name) ?? []).map(of));
}

function print(): void {
  const titles = [
    "",
    ...columns.map(([title]) => title),
    ...latencies.flatMap(([title]) => [title, "added"]),
  ];
  const rows = [...results.keys()].map((name) => {
    const costs = columns.map(([, digits, of]) => {
      const value = medianOf(name, of);
      const ratio = value / medianOf(yardstick, of);
      return Number.isNaN(value) ? "" : `${value.toFixed(digits)} (${ratio.toFixed(2)})`;
    });
    const times = latencies.flatMap(([, digits, of]) => {
      const value = medianOf(name, of);
      return [value.toFixed(digits), (value - medianOf(direct, of)).toFixed(digits)];
    });
    return [name, ...costs, ...times];
  });
  console.log(`\n${table(titles, rows)}`);
  console.log(
    `\nmedian of ${values.rounds} rounds; in brackets the ratio to the ${yardstick}; added: to ${direct}`,
  );
}
