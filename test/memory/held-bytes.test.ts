/** Tests of the algorithms that bound what clients make the gateway hold, and how slowly a request may arrive. */
import assert from "node:assert/strict";
import { test, describe } from "node:test";
import { HeldBytes } from "../../src/memory/held-bytes.ts";
import { defaultHeldBytes } from "../../src/gateway/open-host-resources.ts";
import { SharedCount, SharedCounts } from "../../src/memory/shared-count.ts";
import { createLog } from "../../src/base/log.ts";
import { createMetrics } from "../../src/base/metrics.ts";
import { MainThreads } from "../../src/gateway/threads/ports.ts";
import type { Threads } from "../../src/plugin.ts";
import { manualClock } from "../../src/testing/clock.ts";
import { ArrivalRate } from "../../src/http/arrival-rate.ts";
import { UnfinishedBytes } from "../../src/memory/unfinished-bytes.ts";

const mebibyte = 1024 * 1024;

test("a caller may hold half of the bound in all threads together", () => {
  const main = new MainThreads(2, { clock: manualClock(), log: createLog({ level: "error" }) });
  const { slots } = main;
  const memory: Threads["memory"] = (name, bytes) => main.memory(name, bytes);
  const [one, two] = [1, 2].map((index) => {
    const threads = { index, slots, memory };
    const total = SharedCount.open(threads, "total");
    const callers = new SharedCounts(threads, "callers");
    return new HeldBytes(1000, createMetrics(), { total, callers });
  }) as [HeldBytes, HeldBytes];
  const first = one.hold("a", "body");
  const second = two.hold("a", "body");
  assert.equal(first.exceeded(300), undefined);
  assert.equal(second.exceeded(201), "owner");
  assert.equal(second.exceeded(200), undefined);
  first[Symbol.dispose]();
  assert.equal(second.exceeded(500), undefined);
  new SharedCounts({ index: 0, slots, memory }, "callers").release(2);
  assert.equal(one.hold("a", "body").exceeded(500), undefined);
});

test("a caller may hold half of the bound, whatever it holds; the metrics name the kinds", () => {
  const metrics = createMetrics();
  const held = new HeldBytes(1000, metrics);
  const body = held.hold("a", "body");
  const answer = held.hold("a", "answer");
  assert.equal(body.exceeded(300), undefined);
  assert.equal(answer.exceeded(201), "owner");
  assert.equal(answer.exceeded(200), undefined);
  assert.equal(body.exceeded(301), "owner");
  const bytes = metrics
    .read("sluice_held_bytes")
    .map(({ labels, value }) => [labels["kind"], value]);
  assert.deepEqual(Object.fromEntries(bytes), {
    body: 300,
    message: 0,
    request: 0,
    answer: 200,
    result: 0,
    subscription: 0,
  });
  body[Symbol.dispose]();
  body[Symbol.dispose]();
  answer[Symbol.dispose]();
  assert.equal(held.bytesOf("body") + held.bytesOf("answer"), 0);
});

test("when the bound is reached, the newest part of the dearest caller with several is refused first", () => {
  const held = new HeldBytes(1000, createMetrics());
  const refused: string[] = [];
  const part = (owner: string, name: string, bytes: number) => {
    const held1 = held.hold(owner, "answer", () => void refused.push(name));
    assert.equal(held1.exceeded(bytes), undefined);
    return held1;
  };
  const small = part("small", "small 1", 10);
  part("dear", "dear 1", 200);
  part("dear", "dear 2", 200);
  part("less", "less 1", 150);
  part("less", "less 2", 150);
  const whole = part("whole", "whole", 280);
  assert.deepEqual(refused, []);
  assert.equal(small.exceeded(60), undefined);
  assert.deepEqual(refused, ["dear 2"]);
  // Now `less` holds the most among the callers with several parts.
  assert.equal(small.exceeded(300), undefined);
  assert.deepEqual(refused, ["dear 2", "less 2"]);
  // Callers with one part each: the newest part is refused.
  assert.equal(small.exceeded(480), undefined);
  assert.deepEqual(refused, ["dear 2", "less 2", "whole"]);
  assert.equal(whole.exceeded(400), undefined, "a refused part is not counted any more");
  assert.equal(held.bytesOf("answer"), 200 + 150 + 480);
});

test("the dearest caller is refused itself, not others, and parts that cannot be cut stay", () => {
  const held = new HeldBytes(1000, createMetrics());
  const refused: string[] = [];
  for (const name of ["b", "c"]) {
    held.hold(name, "answer", () => void refused.push(name)).resize(200);
  }
  held.hold("values", "subscription").resize(300);
  const first = held.hold("a", "body", () => void refused.push("first"));
  first.resize(100);
  const second = held.hold("a", "body", () => void refused.push("second"));
  assert.equal(second.exceeded(250), "total");
  assert.deepEqual(refused, []);
  assert.equal(first.exceeded(50), undefined);
  assert.equal(held.countOf("a", "body"), 2);
});

test("the bound follows from the memory of the process", () => {
  const gibibyte = 1024 * mebibyte;
  const heap = 4 * gibibyte;
  const of = (constrained: number, total: number, heapBytes = heap): number =>
    defaultHeldBytes({ constrained, total, heap: heapBytes }) / mebibyte;
  assert.equal(of(512 * mebibyte, 64 * gibibyte), 128);
  // Without a limit, cgroup v1 reports a very large number, and cgroup v2 none.
  assert.equal(of(2 ** 63, 4 * gibibyte), 1024);
  assert.equal(of(0, 4 * gibibyte), 1024);
  assert.equal(of(0, 64 * gibibyte), 2048);
  assert.equal(of(512 * mebibyte, 64 * gibibyte, 128 * mebibyte), 64);
  assert.equal(of(8 * mebibyte, 64 * gibibyte), 16);
});

const limits = { maxBytes: 100, maxBytesPerOwner: 60 };

describe("the memory of unfinished requests", () => {
  test("is limited per owner and in total, and a refusal changes nothing", () => {
    let total = 0;
    const unfinished = new UnfinishedBytes((bytes) => {
      total = bytes;
    });
    const first = unfinished.hold("a", limits);
    const second = unfinished.hold("a", limits);
    const other = unfinished.hold("b", limits);
    assert.equal(first.resize(40), undefined);
    assert.equal(second.resize(21), "owner");
    assert.equal(second.resize(20), undefined);
    assert.equal(other.resize(41), "total");
    assert.equal(other.resize(40), undefined);
    assert.equal(total, 100);
    assert.equal(first.resize(10), undefined);
    assert.equal(total, 70);
    for (const held of [first, second, other, first]) held[Symbol.dispose]();
    assert.equal(total, 0);
    assert.equal(unfinished.hold("a", limits).resize(60), undefined);
  });
});

describe("the rate at which a request arrives", () => {
  function watched(): {
    readonly clock: ReturnType<typeof manualClock>;
    readonly rate: ArrivalRate;
    readonly slow: () => number;
  } {
    const clock = manualClock();
    let slow = 0;
    const rate = new ArrivalRate(clock, () => void slow++);
    return { clock, rate, slow: () => slow };
  }

  test("may be anything within the first second, and 64 KiB in 10 s afterwards", () => {
    const { clock, rate, slow } = watched();
    rate.add(1_000_000);
    clock.advance(1_000);
    rate.add(65_536);
    clock.advance(10_000);
    assert.equal(slow(), 0);
    rate.add(65_535);
    clock.advance(9_999);
    assert.equal(slow(), 0);
    clock.advance(1);
    assert.equal(slow(), 1);
    clock.advance(100_000);
    assert.equal(slow(), 1);
  });

  test("is not checked any more once the request is complete", () => {
    const { clock, rate, slow } = watched();
    clock.advance(5_000);
    rate[Symbol.dispose]();
    clock.advance(100_000);
    assert.equal(slow(), 0);
  });
});
