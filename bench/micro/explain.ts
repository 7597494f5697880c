/**
 * What it costs to remember every exchange for `sluice explain`: nanoseconds an ended exchange, and of an exchange that
 * is timed step by step, on a route of seven steps.
 *
 *   node bench/micro/explain.ts
 */
import { performance } from "node:perf_hooks";
import { startTime, stopTime } from "../../src/pipeline/observe/step-stats.ts";
import { Stories } from "../../src/pipeline/observe/stories.ts";
import type { LiveExchange } from "../../src/pipeline/run/exchange.ts";

const rounds = 9;
const calls = 200_000;
const depth = 7;

/** As much of an exchange as is read of it. */
function exchange(id: number, code: string | undefined): LiveExchange {
  const principal = { kind: "key", key: { id: "key_1", workspaceId: "ws_1" } };
  const slots: Record<string, unknown> = { principal, requestId: `request-${id}` };
  const fake = {
    arrivedAt: id,
    request: { method: "POST" },
    compiled: { shape: { path: "/x", surface: "s", steps: [] } },
    sent: { status: 200, code, bodyBytes: 0 },
    entered: depth,
    repliedByStep: false,
    repliedDepth: Infinity,
    surfaceAsked: true,
    peek: (slot: string) => slots[slot],
  };
  // What `Stories` reads is all there.
  return fake as unknown as LiveExchange;
}

function nanoseconds(task: (n: number) => void): number {
  const taken: number[] = [];
  for (let round = 0; round < rounds; round++) {
    const start = performance.now();
    for (let n = 0; n < calls; n++) task(n);
    taken.push(((performance.now() - start) * 1e6) / calls);
  }
  return Math.round(taken.toSorted((a, b) => a - b)[rounds >> 1] ?? 0);
}

const stories = new Stories();
const exchanges = Array.from({ length: 4_096 }, (_, id) => exchange(id, undefined));
const runtime = { clock: { monotonic: () => performance.now() } };

const results = {
  "remembered, ns": nanoseconds((n) => {
    const x = exchanges[n % exchanges.length];
    if (x !== undefined) stories.settled(x, "complete", 1);
  }),
  "timed, ns": nanoseconds(() => {
    const times = new Float64Array(depth + 1).fill(-1);
    const x = { times, runtime };
    for (let at = 0; at <= depth; at++) stopTime(x, at, startTime(x));
  }),
};
process.stdout.write(`${JSON.stringify(results, undefined, 2)}\n`);
