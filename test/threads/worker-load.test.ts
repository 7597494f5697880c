/** Tests of the algorithm by which the threads of a process count the requests in flight at workers together. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { WorkerLoads } from "../../plugins/inference/networks/worker-load.ts";
import { createLog } from "../../src/base/log.ts";
import { MainThreads } from "../../src/gateway/threads/ports.ts";
import { manualClock } from "../../src/testing/clock.ts";

const log = createLog({ level: "error" });

test("threads see the requests of each other, and those of a thread that has ended are forgotten", () => {
  const names = new Set<string>();
  const main = new MainThreads(2, { clock: manualClock(), log });
  const loadsOf = (index: number): WorkerLoads =>
    new WorkerLoads(
      {
        index,
        slots: main.slots,
        memory(name, bytes) {
          names.add(name);
          return main.memory(name, bytes);
        },
        onEnded: (ended) => main.onEnded(ended),
      },
      "n",
    );
  const loads = [loadsOf(0), loadsOf(1), loadsOf(2)];
  const totals = (id: string): number[] => loads.map((each) => each.of(id).total);
  loads[1]?.of("a").add(2);
  loads[2]?.of("a").add(3);
  loads[2]?.of("b").add(1);
  assert.deepEqual(
    [totals("a"), totals("b"), totals("c")],
    [
      [5, 5, 5],
      [1, 1, 1],
      [0, 0, 0],
    ],
  );
  // A network can list others all the time, which must not take memory.
  for (let number = 0; number < 10_000; number++) loads[1]?.of(`worker ${number}`);
  assert.deepEqual([...names].toSorted(), ["load of n", "workers of n"]);
  const late = loads[1]?.of("one more than there is room for");
  late?.add(1);
  assert.equal(late?.total, 1);
  main.disconnect(2);
  assert.deepEqual(
    [totals("a"), totals("b")],
    [
      [2, 2, 2],
      [0, 0, 0],
    ],
  );
  assert.equal(late?.total, 1);
});
