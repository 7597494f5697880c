/**
 * Measures the cost of keeping every exchange for `sluice explain`: nanoseconds per exchange, without and with the
 * times of its seven steps.
 *
 *   node bench/micro/explain.ts
 */
import { performance } from "node:perf_hooks";
import { ExplanationStore } from "../../src/pipeline/observe/explanation-store.ts";
import { ExchangeRecord } from "../../src/pipeline/observe/record.ts";
import { median } from "../load/table.ts";
import { startTimer, stopTimer } from "../../src/pipeline/observe/step-stats.ts";

const rounds = 9;
const calls = 200_000;
const depth = 7;

const route = { path: "/x", surface: "s", steps: [] };
const caller = { id: "key_1", group: "ws_1", burst: 2, isOperator: false };

function recordOf(id: number): ExchangeRecord {
  const record = new ExchangeRecord(id, "POST", route, undefined);
  record.facts.requestId = `request-${id}`;
  record.facts.caller = caller;
  record.status = 200;
  return record;
}

function nanoseconds(task: (n: number) => void): number {
  const taken: number[] = [];
  for (let round = 0; round < rounds; round++) {
    const start = performance.now();
    for (let n = 0; n < calls; n++) task(n);
    taken.push(((performance.now() - start) * 1e6) / calls);
  }
  return Math.round(median(taken));
}

const store = new ExplanationStore();
const runtime = { clock: { monotonic: () => performance.now() } };

const results = {
  "recorded and kept, ns": nanoseconds((n) => store.settled(recordOf(n))),
  "timed, ns": nanoseconds(() => {
    const times = new Float64Array(depth + 1).fill(-1);
    const x = { record: { times }, runtime };
    for (let at = 0; at <= depth; at++) stopTimer(x, at, startTimer(x));
  }),
};
process.stdout.write(`${JSON.stringify(results, undefined, 2)}\n`);
