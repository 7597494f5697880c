/** The label `method` of sluice_requests_total, and the number of requests of each route. */
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { startGateway } from "../../../src/gateway/gateway.ts";
import { createMetrics } from "../../../src/base/metrics.ts";
import { temporaryFolder } from "../../store/folder.ts";
import { ask, serve } from "../harness.ts";

test("many different methods of clients add one time series per status class", async () => {
  const metrics = createMetrics();
  const surface = { answer: () => ({ status: 200, body: "ok" }) };
  const route = { path: "/a", methods: ["*", "PURGE"], surface };
  const read = (): Map<string, number> => {
    const samples = metrics.read("sluice_requests_total");
    return new Map(
      samples.map(({ labels, value }) => [`${labels["method"]} ${labels["status"]}`, value]),
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
