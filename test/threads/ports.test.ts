/** Tests of what threads share through their ports: reloads, with builds that the test ends, and the requests in flight at workers. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { MessageChannel } from "node:worker_threads";
import { WorkerLoads } from "../../plugins/inference/networks/worker-load.ts";
import { createLog } from "../../src/base/log.ts";
import { followReloads } from "../../src/gateway/threads/follow-reloads.ts";
import { joinThreads, MainThreads } from "../../src/gateway/threads/ports.ts";
import {
  commitTopic,
  dropTopic,
  prepareCall,
  retiredTopic,
} from "../../src/gateway/threads/thread-start.ts";
import { manualClock } from "../../src/testing/clock.ts";

test("a build that the main thread has given up is dropped, and the next one is served", async (t) => {
  const clock = manualClock();
  const main = new MainThreads(1, { clock, log });
  const { port1, port2 } = new MessageChannel();
  t.after(() => port1.close());
  main.connect(1, { messages: port1 });
  const memory = (name: string, bytes: number): SharedArrayBuffer => main.memory(name, bytes);
  const threads = joinThreads({ index: 1, count: 1 }, port2, memory, { clock, log });
  const events: string[] = [];
  const slow = Promise.withResolvers<void>();
  const begun = Promise.withResolvers<void>();
  await using stack = new AsyncDisposableStack();
  followReloads(
    1,
    { threads, log, stack },
    {
      async build({ generation: number }) {
        events.push(`build ${number}`);
        begun.resolve();
        if (number === 2) await slow.promise;
        const retire = async (): Promise<void> => void events.push(`retire ${number}`);
        return { generation: { number, retire }, faults: [] };
      },
      async swap({ number }) {
        events.push(`serve ${number}`);
      },
    },
  );
  const prepare = (generation: number): Promise<unknown> =>
    main.call(prepareCall, { path: "", text: "", without: [], generation }, 1, 1_000);
  const first = assert.rejects(prepare(2), /within 1000 ms/);
  await begun.promise;
  clock.advance(1_000);
  await first;
  main.send(dropTopic, undefined);
  const second = prepare(3);
  slow.resolve();
  assert.deepEqual(await second, []);
  const retired = Promise.withResolvers<unknown>();
  main.receive(retiredTopic, retired.resolve);
  main.send(commitTopic, 4);
  main.send(commitTopic, 3);
  assert.equal(await retired.promise, 1);
  assert.deepEqual(events, ["build 2", "retire 2", "build 3", "serve 3"]);
});

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
