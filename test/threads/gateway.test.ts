/** A gateway with several threads, through its listeners. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { connect } from "node:net";
import { test } from "node:test";
import { pipeline, startThreads, useStartGate, type ThreadsGateway } from "./threads-gateway.ts";

const threadsOf = (
  pipelines: string,
): readonly { thread: number; state: string; generation: number }[] =>
  JSON.parse(pipelines).threads ?? [];
const allServe = (pipelines: string): boolean =>
  threadsOf(pipelines).every(({ state }) => state === "serving");

/** Makes a thread start that waits for `gate` of its text, in place of one whose plugin throws. */
async function startAnother(gateway: ThreadsGateway): Promise<void> {
  await gateway.ask("/which?throw");
  await gateway.adminUntil("/pipelines", (text) =>
    threadsOf(text).some(({ state }) => state === "starting"),
  );
}

/** Requests that run until `/which?go`, in both threads. Their answers come from the main thread. */
async function held(gateway: ThreadsGateway, running: number): Promise<Promise<string>[]> {
  const requests = Array.from({ length: 20 }, () => gateway.ask("/which?ask"));
  for (const request of requests) request.catch(() => {});
  await gateway.adminUntil("/metrics", (text) =>
    text.includes(`sluice_exchanges_open{route="/which"} ${running}`),
  );
  return requests;
}

/** The requests that all threads have answered, also those of threads that have ended. */
async function countOf(gateway: ThreadsGateway): Promise<number> {
  const metrics = await gateway.admin("/metrics");
  const counted = /^sluice_requests_total\{route="\/which".*status="2xx"\} (\d+)$/m.exec(metrics);
  return Number(counted?.[1]);
}

test("a gateway with two threads", async (t) => {
  const withOnce = pipeline(2).replace("which.js }", "which.js, once: ./once.js }");
  const gateway = await startThreads(
    t,
    `${withOnce}  - { path: /gone, run: [], to: { forward: { upstream: gone } } }
upstreams: { gone: { urls: "http://127.0.0.1:1" } }
once: {}
`,
  );

  await t.test("serves the port with both, and the admin listener adds them up", async () => {
    const seen = new Map<string, number>();
    await gateway.askUntil("/which", (answer) => {
      seen.set(answer, (seen.get(answer) ?? 0) + 1);
      return seen.size === 2;
    });
    assert.deepEqual([...seen.keys()].toSorted(), ["1", "2"]);
    const asked = [...seen.values()].reduce((sum, count) => sum + count);
    assert.equal(await countOf(gateway), asked);
    const [route] = JSON.parse(await gateway.ask("/which?routes"));
    assert.ok(route.surface.timed > 0 && route.surface.meanMs > 0);
    const { threads } = JSON.parse(await gateway.admin("/pipelines"));
    assert.deepEqual(threads, [
      { thread: 1, state: "serving", generation: 1 },
      { thread: 2, state: "serving", generation: 1 },
    ]);
    const { checks } = JSON.parse(await gateway.admin("/readyz"));
    assert.equal(checks.threads, "ok");
  });

  await t.test("starts a service that runs once in the main thread only", () => {
    const started = gateway.lines.filter((line) => line.includes("once has started"));
    assert.deepEqual(
      started.map((line) => /in thread \d/.exec(line)?.[0]),
      ["in thread 0"],
    );
  });

  await t.test("explains an exchange in whichever thread served it", async () => {
    const response = await fetch(`${gateway.url}/which`, { headers: { connection: "close" } });
    const thread = await response.text();
    const id = response.headers.get("x-request-id") ?? "";
    const { exchanges } = JSON.parse(await gateway.admin(`/explain?id=${id}`));
    assert.deepEqual(
      exchanges.map(({ replica }: { replica: string }) => replica),
      [`thread ${thread}`],
    );
  });

  await t.test("refuses the port of another process, although threads share theirs", async () => {
    const { port } = new URL(gateway.url);
    await assert.rejects(startThreads(t, pipeline(2), { PORT: port }), /SLUICE_LISTEN_FAILED/);
  });

  await t.test("is not ready for the admin listener if an upstream fails in a thread", async () => {
    const ready = async (): Promise<string> =>
      JSON.parse(await gateway.admin("/readyz")).checks["upstream gone"];
    assert.equal(await ready(), "ok");
    await gateway.askUntil("/gone", () => true);
    await gateway.adminUntil("/metrics", (metrics) =>
      metrics.includes('sluice_backend_up{kind="upstream",backend="upstream gone"} 0'),
    );
    assert.equal(await ready(), "unreachable");
  });

  await t.test(
    "replaces a thread whose plugin throws out of turn, and its requests stay counted",
    async () => {
      const countedBefore = await countOf(gateway);
      const askedBefore = gateway.asked;
      const ids = new Set<string>();
      await gateway.askUntil("/which?id", (id) => ids.add(id).size === 2);
      await gateway.ask("/which?throw");
      // The new thread may have the index of the one that it replaces.
      await gateway.askUntil("/which?id", (id) => id.includes("-") && !ids.has(id));
      await gateway.adminUntil("/pipelines", allServe);
      const { ready, checks } = JSON.parse(await gateway.admin("/readyz"));
      assert.equal(checks.threads, "ok", JSON.stringify(ready));
      assert.equal(await countOf(gateway), gateway.asked + countedBefore - askedBefore);
    },
  );

  await t.test(
    "ends and replaces a thread that does not answer for 10 s, and the log names the plugin",
    async () => {
      // The answer never comes: the connection is closed when the thread is ended.
      await assert.rejects(gateway.ask("/which?block"));
      await gateway.adminUntil("/readyz", (text) => JSON.parse(text).checks?.threads === "ok");
      const logged = gateway.lines.find((line) => line.includes("has not answered for 10 s"));
      assert.equal(JSON.parse(logged?.slice(logged.indexOf("{")) ?? "{}").plugin, "which");
    },
  );

  await t.test("drains all threads at a stop: running requests end, and none begins", async () => {
    const running = Array.from({ length: 8 }, () => gateway.ask("/which?wait"));
    await gateway.adminUntil("/metrics", (text) =>
      text.includes('sluice_exchanges_open{route="/which"} 8'),
    );
    const stopped = gateway.gateway.stop();
    await Promise.all(running);
    await stopped;
    await assert.rejects(gateway.ask("/which"));
  });
});

test("a reload reaches all threads, or none if one of them cannot load it", async (t) => {
  const gateway = await startThreads(t, pipeline(2));
  const { reloader } = gateway.gateway;
  await gateway.write(pipeline(2, "-new"));
  assert.deepEqual(await reloader.reload("test"), []);
  const seen = new Set<string>();
  await gateway.askUntil("/which", (answer) => seen.add(answer).size === 2);
  assert.deepEqual([...seen].toSorted(), ["1-new", "2-new"]);
  const generations = (text: string): number[] =>
    threadsOf(text).map(({ generation }) => generation);
  assert.deepEqual(generations(await gateway.admin("/pipelines")), [2, 2]);
  // The plugin starts in the main thread and in thread 1, and throws in thread 2.
  await gateway.write(pipeline(2, "fails in 2"));
  const faults = await reloader.reload("test");
  assert.deepEqual(
    faults.map(({ code }) => code),
    ["SLUICE_PLUGIN_START"],
  );
  assert.deepEqual(generations(await gateway.admin("/pipelines")), [2, 2]);
  seen.clear();
  await gateway.askUntil("/which", (answer) => seen.add(answer).size === 2);
  assert.deepEqual([...seen].toSorted(), ["1-new", "2-new"]);
  await gateway.write(pipeline(3));
  assert.deepEqual(
    (await reloader.reload("test")).map(({ code }) => code),
    ["SLUICE_RESTART_NEEDED"],
  );
});

test("after a reload, the plugins of the main thread answer those of the previous generation until it has ended", async (t) => {
  const gateway = await startThreads(t, pipeline(2, "-old"));
  const running = gateway.ask("/which?ask");
  await gateway.adminUntil("/metrics", (text) =>
    text.includes('sluice_exchanges_open{route="/which"} 1'),
  );
  await gateway.write(pipeline(2, "-new"));
  assert.deepEqual(await gateway.gateway.reloader.reload("test"), []);
  await gateway.askUntil("/which", (answer) => answer.endsWith("-new"));
  await gateway.ask("/which?go");
  assert.equal(await running, "main-old");
  const asked = Array.from({ length: 8 }, () => gateway.ask("/which?ask"));
  assert.deepEqual(new Set(await Promise.all(asked)), new Set(["main-new"]));
});

test("a thread that starts while the gateway stops does not delay the stop", async (t) => {
  const gateway = await startThreads(t, pipeline(2));
  const open = Promise.withResolvers<void>();
  useStartGate(t, () => open.promise);
  await startAnother(gateway);
  const stopped = gateway.gateway.stop();
  open.resolve();
  await stopped;
  assert.doesNotMatch(gateway.lines.join("\n"), /did not end in time/);
});

test("a reload replaces a thread that began to serve meanwhile after its requests", async (t) => {
  const gateway = await startThreads(t, pipeline(2));
  const reloaded = Promise.withResolvers<void>();
  const gates = new Map([
    ["", Promise.withResolvers<void>()],
    ["-new", reloaded],
  ]);
  const waiting = Promise.withResolvers<void>();
  useStartGate(t, (text) => {
    if (text === "-new") waiting.resolve();
    return gates.get(text)?.promise;
  });
  await startAnother(gateway);
  await gateway.write(pipeline(2, "-new"));
  const reload = gateway.gateway.reloader.reload("test");
  await waiting.promise;
  gates.get("")?.resolve();
  await gateway.adminUntil("/pipelines", allServe);
  const requests = await held(gateway, 20);
  reloaded.resolve();
  assert.deepEqual(await reload, []);
  await gateway.askUntil("/which?go", (answer) => answer.endsWith("-new"));
  assert.deepEqual(new Set(await Promise.all(requests)), new Set(["main"]));
  await gateway.adminUntil(
    "/pipelines",
    (text) => allServe(text) && threadsOf(text).every(({ generation }) => generation === 2),
  );
});

test("new requests have threads although the requests of many drained threads still run", async (t) => {
  const gateway = await startThreads(t, pipeline(2, "", ", drainSeconds: 300"));
  const requests: Promise<string>[] = [];
  const inState = (pipelines: string, wanted: string): number[] =>
    threadsOf(pipelines).flatMap(({ thread, state }) => (state === wanted ? [thread] : []));
  const drained = [2, 3, 1];
  for (const thread of drained) {
    requests.push(...(await held(gateway, requests.length + 20)));
    await gateway.throwIn(thread);
    await gateway.adminUntil(
      "/pipelines",
      (text) => inState(text, "draining").includes(thread) && inState(text, "serving").length === 2,
    );
  }
  // The oldest drain has ended, and its place is that of the last thread that started.
  const text = await gateway.admin("/pipelines");
  assert.deepEqual(inState(text, "draining"), [3, 1]);
  assert.deepEqual(new Set(inState(text, "serving")), new Set([4, 2]));
  await gateway.ask("/which?go");
  await Promise.allSettled(requests);
});

test("the number of open connections is limited over all threads", async (t) => {
  const gateway = await startThreads(t, pipeline(2, "", ", connections: 4"));
  const sockets = Array.from({ length: 12 }, () => connect(Number(new URL(gateway.url).port)));
  t.after(() => sockets.forEach((socket) => socket.destroy()));
  const closed = sockets.map((socket) => once(socket, "close"));
  for (const socket of sockets) socket.on("error", () => {});
  let count = 0;
  await new Promise<void>((resolve) => {
    for (const each of closed) void each.then(() => ++count === 8 && resolve());
  });
  assert.equal(sockets.filter(({ closed: isClosed }) => !isClosed).length, 4);
});
