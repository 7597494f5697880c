/** Plugins of a test in a pipeline: which hooks run, with which arguments, and what is recorded about them. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { createMetrics } from "../../../src/base/metrics.ts";
import { refuse, type Exchange, type Reply } from "../../../src/plugin.ts";
import { manualClock } from "../../../src/testing/clock.ts";
import { ask, serve, stepCounts, type TestStep } from "../harness.ts";

const hello = (): Reply => ({ status: 200, body: "hello" });

async function streamed(x: Exchange): Promise<undefined> {
  const sink = await x.stream(200, []);
  sink.write(Buffer.from("one"));
  await sink.end();
}

test("passes the state of a step to all of its hooks, and to no other exchange", async () => {
  const seen: unknown[][] = [];
  let created = 0;
  const step: TestStep = {
    name: "counts",
    createState: () => [++created],
    requestHeaders: (_, state) => void (state as unknown[]).push("requestHeaders"),
    requestBody: (_, __, state) => void (state as unknown[]).push("requestBody"),
    around(_, surface, state) {
      (state as unknown[]).push("around");
      return surface.answer();
    },
    responseHeaders: (_, __, state) => void (state as unknown[]).push("responseHeaders"),
    responseChunk: (_, __, state) => void (state as unknown[]).push("responseChunk"),
    responseEnd: async (_, __, state) => void (state as unknown[]).push("responseEnd"),
    settled: (_, outcome, state) => void seen.push([...(state as unknown[]), outcome]),
  };
  const all = [
    "requestHeaders",
    "requestBody",
    "around",
    "responseHeaders",
    "responseChunk",
    "responseEnd",
    "complete",
  ];
  await using served = await serve([{ path: "/x", steps: [step], surface: { answer: streamed } }]);
  for (let i = 0; i < 2; i++) await ask(served, "/x", { method: "POST", body: "body" });
  while (seen.length < 2) await new Promise(setImmediate);
  assert.deepEqual(seen, [
    [1, ...all],
    [2, ...all],
  ]);
});

test("keeps a state for each position of a step in the list", async () => {
  const seen: unknown[] = [];
  const step: TestStep = {
    name: "twice",
    createState: () => ({}),
    requestHeaders: (_, state) => void seen.push(state),
  };
  await using served = await serve([
    { path: "/x", steps: [step, step], surface: { answer: hello } },
  ]);
  assert.equal((await ask(served, "/x")).status, 200);
  assert.equal(seen.length, 2);
  assert.notEqual(seen[0], seen[1]);
});

test("runs each responseEnd hook once, even if a later one fails or refuses", async () => {
  for (const end of [
    () => refuse("GATEWAY_SERVICE_UNAVAILABLE"),
    async () => refuse("GATEWAY_SERVICE_UNAVAILABLE"),
    (): never => {
      throw new Error("broken");
    },
  ]) {
    const seen: string[] = [];
    const steps: TestStep[] = [
      { name: "top", responseEnd: () => void seen.push("top") },
      { name: "middle", responseEnd: end },
      { name: "bottom", responseEnd: () => void seen.push("bottom") },
    ];
    await using served = await serve([{ path: "/x", steps, surface: { answer: hello } }]);
    assert.ok((await ask(served, "/x")).status >= 500);
    assert.deepEqual(seen, ["bottom", "top"]);
  }
});

test("measures the time of the hooks of every phase, without the time of what a step wraps", async () => {
  const clock = manualClock();
  const takes = (ms: number) => (): void => clock.advance(ms);
  const steps: TestStep[] = [
    { name: "requestHeaders", requestHeaders: takes(1) },
    { name: "requestBody", requestBody: takes(2) },
    {
      name: "around",
      around(_, surface) {
        clock.advance(4);
        return surface.answer();
      },
    },
    { name: "responseHeaders", responseHeaders: takes(8) },
    { name: "responseChunk", responseChunk: takes(16) },
    { name: "responseEnd", responseEnd: takes(32) },
    { name: "settled", settled: takes(64) },
  ];
  const answer = (): Reply => {
    clock.advance(128);
    return hello();
  };
  const metrics = createMetrics();
  const routes = [{ path: "/x", steps, surface: { answer } }];
  await using served = await serve(routes, { clock, metrics });
  await ask(served, "/x", { method: "POST", body: "body" });
  while (served.listener.running > 0) await new Promise(setImmediate);
  assert.deepEqual(
    Object.values(stepCounts(metrics, "seconds")).map((seconds) => Math.round(1000 * seconds)),
    [1, 2, 4, 8, 16, 32, 64, 128],
  );
});

test("runs no further hook after the exchange has settled", async () => {
  const reached = Promise.withResolvers<void>();
  const waits = Promise.withResolvers<void>();
  const settled = Promise.withResolvers<void>();
  const seen: string[] = [];
  const steps: TestStep[] = [
    { name: "top", responseHeaders: () => void seen.push("top"), settled: () => settled.resolve() },
    {
      name: "bottom",
      responseHeaders() {
        reached.resolve();
        return waits.promise;
      },
    },
  ];
  await using served = await serve([{ path: "/x", steps, surface: { answer: hello } }]);
  const abort = new AbortController();
  const gone = fetch(`${served.url}/x`, { signal: abort.signal });
  await reached.promise;
  abort.abort();
  await assert.rejects(gone);
  await settled.promise;
  waits.resolve();
  await new Promise(setImmediate);
  assert.deepEqual(seen, []);
});

for (const part of ["step", "asynchronous step", "surface"]) {
  test(`the log and a metric name the ${part} that computes for more than a second`, async () => {
    const clock = manualClock();
    const compute = (): void => clock.advance(1_500);
    const surface = {
      answer() {
        if (part === "surface") compute();
        return hello();
      },
    };
    const step: TestStep = {
      name: "slow",
      requestHeaders() {
        if (part !== "surface") compute();
        return part === "asynchronous step" ? Promise.resolve() : undefined;
      },
    };
    const metrics = createMetrics();
    const route = { path: "/x", steps: [step], surface };
    await using served = await serve([route], { clock, metrics });
    assert.equal((await ask(served, "/x")).status, 200);
    assert.deepEqual(served.warnings, ["a hook of a plugin blocked all requests"]);
    const blocked = metrics.read("sluice_step_blocks_total").filter(({ value }) => value === 1);
    assert.deepEqual(
      blocked.map(({ labels }) => labels["step"]),
      [part === "surface" ? "surface-0" : "slow"],
    );
  });
}

test("the log does not name a step that waits for more than a second", async () => {
  const clock = manualClock();
  const step: TestStep = {
    name: "waits",
    async requestHeaders() {
      await Promise.resolve();
      clock.advance(1_500);
    },
  };
  const surface = { answer: hello };
  await using served = await serve([{ path: "/x", steps: [step], surface }], { clock });
  assert.equal((await ask(served, "/x")).status, 200);
  assert.deepEqual(served.warnings, []);
});

test("an observer that throws is logged, and the others are called", async () => {
  const seen: string[] = [];
  const surface = { answer: () => ({ status: 200, body: "fine" }) };
  const failing = (): never => {
    throw new Error("a bug");
  };
  await using served = await serve([{ path: "/x", surface }], {
    observers: [failing, ({ route, outcome }) => seen.push(`${route.path} ${outcome}`)],
  });
  assert.equal((await ask(served, "/x")).body, "fine");
  while (seen.length === 0) await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual(seen, ["/x complete"]);
  assert.match(served.errors.join(), /an observer of exchanges failed/);
});
