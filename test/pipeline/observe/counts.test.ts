/** Which exchanges are timed, how durations are summed up, and the counts of routes, methods and steps over HTTP. */
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { createMetrics, type RenderedMetrics } from "../../../src/base/metrics.ts";
import { startGateway } from "../../../src/gateway/gateway.ts";
import { coreMetrics } from "../../../src/pipeline/observe/stats.ts";
import { RouteStepStats, TimeHistogram } from "../../../src/pipeline/observe/step-stats.ts";
import { refuse } from "../../../src/plugin.ts";
import { temporaryFolder } from "../../store/folder.ts";
import { noMetrics, serve, ask } from "../harness.ts";

const newStats = (): RouteStepStats =>
  new RouteStepStats(coreMetrics(noMetrics), "/", ["a", "b", "surface"]);

const samples = (metrics: Pick<RenderedMetrics, "read">, what: string): string[] =>
  metrics
    .read(`sluice_step_${what}_total`)
    .filter(({ value }) => value > 0)
    .map(({ labels, value }) => [...Object.values(labels), value].join(" "));

test("returns quantiles within a factor of two of the observed durations", () => {
  const times = new TimeHistogram();
  assert.equal(times.quantile(0.5), undefined);
  for (let ms = 1; ms <= 1000; ms++) times.observe(ms);
  const median = times.quantile(0.5) ?? 0;
  assert.ok(median > 400 && median < 600, `median ${median}`);
  const p99 = times.quantile(0.99) ?? 0;
  assert.ok(p99 > 900 && p99 <= 1048.576, `p99 ${p99}`);
});

test("counts durations of any length", () => {
  const times = new TimeHistogram();
  for (const ms of [0, 0.0001, 3_600_000, 1e12]) times.observe(ms);
  assert.ok((times.quantile(0.25) ?? 1) <= 0.001);
  assert.ok((times.quantile(1) ?? 0) > 1_800_000);
});

test("times one in eight of the exchanges that follow each other closely, beginning with the first", () => {
  const route = newStats();
  const timed = Array.from({ length: 17 }, () => route.begin(5, false) !== undefined);
  assert.deepEqual(
    timed.flatMap((isTimed, i) => (isTimed ? [i] : [])),
    [0, 8, 16],
  );
});

test("times all exchanges that are some time apart, and every exchange that requests it", () => {
  const route = newStats();
  const timed = (now: number, isAskedFor = false): boolean =>
    route.begin(now, isAskedFor) !== undefined;
  assert.deepEqual(
    [timed(0), timed(9.9), timed(10), timed(10), timed(20)],
    [true, false, true, false, true],
  );
  assert.equal(timed(21), false);
  assert.equal(timed(21, true), true);
});

test("adds up the time of the hooks of each step, and records none for steps below a refusal", async () => {
  const slow = new Promise<void>((resolve) => setImmediate(resolve));
  const metrics = createMetrics();
  const routes = [
    {
      path: "/ok",
      steps: [{ name: "waits", requestHeaders: () => slow, responseEnd: () => slow }],
      surface: { answer: () => ({ status: 200, body: "ok" }) },
    },
    {
      path: "/no",
      steps: [
        { name: "refuses", requestHeaders: () => refuse("GATEWAY_RATE_LIMITED") },
        { name: "below", requestHeaders() {} },
      ],
      surface: { answer: () => ({ status: 200, body: "ok" }) },
    },
    {
      path: "/late",
      steps: [{ name: "late", responseEnd: () => refuse("GATEWAY_SERVICE_UNAVAILABLE") }],
      surface: { answer: () => ({ status: 200, body: "ok" }) },
    },
    {
      path: "/surface",
      steps: [{ name: "lets", requestHeaders() {} }],
      surface: { answer: () => refuse("GATEWAY_NOT_FOUND") },
    },
  ];
  await using served = await serve(routes, { metrics });
  for (const [path, status] of [
    ["/ok", 200],
    ["/no", 429],
    ["/late", 503],
    ["/surface", 404],
  ] as const) {
    assert.equal((await fetch(served.url + path)).status, status, path);
  }
  assert.deepEqual(samples(metrics, "timed"), [
    "/ok waits 1",
    "/ok surface-0 1",
    "/no refuses 1",
    "/late late 1",
    "/late surface-2 1",
    "/surface lets 1",
    "/surface surface-3 1",
  ]);
  assert.deepEqual(samples(metrics, "refusals"), [
    "/no refuses GATEWAY_RATE_LIMITED 1",
    "/late late GATEWAY_SERVICE_UNAVAILABLE 1",
    "/surface surface-3 GATEWAY_NOT_FOUND 1",
  ]);
});

test("times hooks and surfaces that fail, like any other", async () => {
  const throws = (): never => {
    throw new Error("failed");
  };
  const rejects = (): Promise<never> => Promise.reject(new Error("failed"));
  const hello = { answer: () => ({ status: 200, body: "ok" }) };
  const metrics = createMetrics();
  const routes = [
    { path: "/throws", steps: [{ name: "fails", requestHeaders: throws }], surface: hello },
    { path: "/rejects", steps: [{ name: "fails", requestHeaders: rejects }], surface: hello },
    { path: "/around", steps: [{ name: "fails", around: throws }], surface: hello },
    { path: "/around-rejects", steps: [{ name: "fails", around: rejects }], surface: hello },
    { path: "/surface", steps: [], surface: { answer: throws } },
    { path: "/surface-rejects", steps: [], surface: { answer: rejects } },
  ];
  await using served = await serve(routes, { metrics });
  for (const { path } of routes) assert.equal((await fetch(served.url + path)).status, 500, path);
  assert.deepEqual(samples(metrics, "timed"), [
    "/throws fails 1",
    "/rejects fails 1",
    "/around fails 1",
    "/around-rejects fails 1",
    "/surface surface-4 1",
    "/surface-rejects surface-5 1",
  ]);
});

test("many different methods of clients add one time series per status class", async () => {
  const metrics = createMetrics();
  const surface = { answer: () => ({ status: 200, body: "ok" }) };
  const route = { path: "/a", methods: ["*", "PURGE"], surface };
  const read = (): Map<string, number> => {
    const requests = metrics.read("sluice_requests_total");
    return new Map(
      requests.map(({ labels, value }) => [`${labels["method"]} ${labels["status"]}`, value]),
    );
  };
  const others = ["ACL", "BIND", "COPY", "LINK", "LOCK", "MERGE", "MOVE", "SEARCH", "UNLOCK"];
  await using served = await serve([route], { metrics });
  const classes = ["1xx", "2xx", "3xx", "4xx", "5xx", "none"];
  assert.deepEqual(
    [...read().keys()],
    classes.map((status) => `PURGE ${status}`),
  );
  for (const method of [...others, "GET"]) await ask(served, "/a", { method });
  // An exchange can settle after its client has received the answer.
  while (read().get("GET 2xx") !== 1) await new Promise(setImmediate);
  assert.equal(read().size, 3 * classes.length);
  assert.equal(read().get("other 2xx"), others.length);
});

const reporter = `export default {
  kind: "surface",
  name: "reporter",
  description: "Reports the routes.",
  uses: ["gateway"],
  start: (_, host) => ({
    answer: () => ({ status: 200, body: JSON.stringify(host.use("gateway").running().routes) }),
  }),
};`;

const pipeline = `version: 1
server: { port: 0, drainDelaySeconds: 0 }
admin: { port: 0 }
log: { level: silent }
plugins: { reporter: ./reporter.js }
routes:
  - { path: /routes, methods: [GET], to: reporter }
  - { path: /same, methods: [GET], to: front-page }
  - { path: /same, methods: [POST], to: front-page }
  - { path: /same, to: front-page }
`;

test("routes with the same path and different methods have numbers of their own", async (t) => {
  const folder = temporaryFolder(t);
  writeFileSync(join(folder, "package.json"), '{ "type": "module" }');
  writeFileSync(join(folder, "reporter.js"), reporter);
  const configFile = join(folder, "pipeline.yaml");
  writeFileSync(configFile, pipeline);
  const gateway = await startGateway({ configFile, env: {}, watch: false });
  t.after(() => gateway.stop());
  for (const method of ["GET", "GET", "HEAD", "POST", "PUT", "PURGE", "PURGE"]) {
    await (await fetch(`${gateway.url}/same`, { method })).arrayBuffer();
  }
  await (await fetch(`${gateway.url}/missing`, { method: "PUT" })).arrayBuffer();
  const counts = async (): Promise<unknown[]> => {
    const routes = await (await fetch(`${gateway.url}/routes`)).json();
    assert(Array.isArray(routes));
    return routes
      .slice(1)
      .map(({ requests }: { requests: Record<string, number> }) =>
        Object.values(requests).reduce((sum, n) => sum + n, 0),
      );
  };
  const expected = [3, 1, 3, 1];
  while (String(await counts()) !== String(expected)) await new Promise(setImmediate);
  const text = await (await fetch(`${gateway.adminUrl}/metrics`)).text();
  assert.match(text, /^sluice_requests_total\{route="\/same",method="HEAD",status="2xx"\} 1$/m);
  assert.match(text, /^sluice_requests_total\{route="\/same",method="other",status="[24]xx"\} 2$/m);
});
