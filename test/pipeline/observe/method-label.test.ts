/** The label `method` of sluice_requests_total, and the number of requests of each route. */
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { startGateway } from "../../../src/gateway/gateway.ts";
import { createMetrics } from "../../../src/base/metrics.ts";
import { coreMetrics, RouteStats } from "../../../src/pipeline/observe/stats.ts";
import { temporaryFolder } from "../../store/folder.ts";

test("many different methods of clients add one time series per status class", () => {
  const metrics = createMetrics();
  const stats = new RouteStats(coreMetrics(metrics), "/a", ["*", "PURGE"]);
  const read = (): Record<string, number> => {
    const counts: Record<string, number> = {};
    for (const { labels, value } of metrics.read("sluice_requests_total")) {
      counts[`${labels["method"]} ${labels["status"]}`] = value;
    }
    return counts;
  };
  assert.deepEqual(
    Object.keys(read()),
    ["1xx", "2xx", "3xx", "4xx", "5xx", "none"].map((status) => `PURGE ${status}`),
  );
  for (let i = 0; i < 50; i++) stats.settled(`X${i}`, 200, undefined, "complete", 0.1);
  stats.settled("GET", 404, undefined, "complete", 0.1);
  assert.equal(Object.keys(read()).length, 3 * 6);
  assert.equal(read()["other 2xx"], 50);
  assert.equal(read()["GET 4xx"], 1);
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
  // An exchange can settle after its client has received the answer.
  const expected = [3, 1, 3, 1];
  while (String(await counts()) !== String(expected)) await new Promise(setImmediate);
  const text = await (await fetch(`${gateway.adminUrl}/metrics`)).text();
  assert.match(text, /^sluice_requests_total\{route="\/same",method="HEAD",status="2xx"\} 1$/m);
  assert.match(text, /^sluice_requests_total\{route="\/same",method="other",status="[24]xx"\} 2$/m);
});
