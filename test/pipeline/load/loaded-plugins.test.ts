/** Tests what the gateway reports about its loaded plugins: where they come from, what they get, and their counts. */
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import type { HookStatus, LoadedPlugin } from "../../../src/plugin.ts";
import { manualClock } from "../../../src/testing/clock.ts";
import { version } from "../../../src/base/version.ts";
import { startTestGateway, type TestGateway } from "../../../plugins/contracts/testing.ts";
import { thirdParty, writeThirdParty } from "../../third-party-plugins.ts";

const pipeline = `version: 1
server: { port: "\${PORT}" }
admin: { port: "\${ADMIN_PORT}" }
store: { data: "\${DATA_DIR}" }
plans: { enterprise: { rps: 1000, includedCu: 1000, overageUsdPerCu: none } }
plugins: ${thirdParty}
tools: [acme-dice]
lists: { edge: [request-id, authenticate, { authorize: { require: key } }, meter] }
routes:
  - { path: /rpc, methods: [POST], run: [{ use: edge }], to: tool-rpc }
  - { path: /keyed, methods: [GET], run: [{ use: edge }], to: acme-plugins }
  - { path: /plugins, methods: [GET], to: acme-plugins }
`;

async function plugins({ url }: TestGateway): Promise<Map<string, LoadedPlugin>> {
  // The surface answers with what the service `gateway` reports.
  const list = (await (await fetch(`${url}/plugins`)).json()) as LoadedPlugin[];
  return new Map(list.map((plugin) => [plugin.name, plugin]));
}

function countsOf(plugin: LoadedPlugin | undefined, hook: string): Partial<HookStatus> {
  const { seconds: _, hook: __, ...counts } = plugin?.hooks.find((one) => one.hook === hook) ?? {};
  return counts;
}

async function callTool({ url, key }: TestGateway, tool: string): Promise<void> {
  const call = { jsonrpc: "2.0", id: 1, method: "tools.call", params: { tool, params: {} } };
  const response = await fetch(`${url}/rpc`, {
    method: "POST",
    headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
    body: JSON.stringify(call),
  });
  await response.arrayBuffer();
}

test("plugins are reported with their origin, version, contract, grants and counts, which a reload keeps", async () => {
  await using gateway = await startTestGateway({ pipeline, prepare: writeThirdParty });
  const found = await plugins(gateway);
  assert.deepEqual([...found.keys()], [...found.keys()].toSorted());
  const facts = (name: string): unknown => {
    const { hooks: _, ...rest } = found.get(name) ?? {};
    return rest;
  };
  assert.deepEqual(facts("acme-dice"), {
    name: "acme-dice",
    kind: "tools",
    description: "Throws dice.",
    version: "2.3.4",
    contract: "^1.1",
    origin: "package",
    source: "acme-kit/dice",
    hasGrants: true,
    grants: {
      services: [],
      hosts: ["dice.acme.com:443"],
      env: ["ACME_KEY"],
      body: "none",
      deployment: [],
    },
  });
  assert.deepEqual(facts("acme-plugins"), {
    name: "acme-plugins",
    kind: "surface",
    description: "Lists the plugins.",
    origin: "path",
    source: "./acme-plugins.js",
    hasGrants: false,
    grants: {
      services: ["acme-clock", "gateway"],
      hosts: [],
      env: [],
      body: "write",
      deployment: [],
    },
  });
  const { kind, origin, version: shipped } = found.get("authenticate") ?? {};
  assert.deepEqual([kind, origin, shipped], ["step", "sluice", version]);
  // A service that runs because a plugin uses it.
  assert.equal(found.get("tool-catalogue")?.kind, "service");
  for (const tool of ["roll", "roll", "break", "refuse", "secret"]) {
    await callTool(gateway, `acme_${tool}`);
  }
  assert.deepEqual(countsOf((await plugins(gateway)).get("acme-dice"), "tool"), {
    timed: 4,
    refusals: { GATEWAY_CONFLICT: 1, GATEWAY_PERMISSION_DENIED: 1 },
    failures: { GATEWAY_INTERNAL_ERROR: 1 },
    errors: 1,
    timeouts: 0,
  });
  const exposition = await (await fetch(`${gateway.adminUrl}/metrics`)).text();
  assert.match(
    exposition,
    /^sluice_plugin_errors_total\{plugin="acme-dice",kind="tools",hook="tool",reason="throw"\} 1$/m,
  );
  const refused = await fetch(`${gateway.url}/keyed`, { headers: { authorization: "x" } });
  await refused.arrayBuffer();
  await gateway.write(pipeline.replace("  - { path: /keyed", "  - { path: /other"));
  assert.deepEqual(await gateway.gateway.reloader.reload("test"), []);
  const after = await plugins(gateway);
  const { refusals, errors } = countsOf(after.get("authorize"), "request");
  assert.deepEqual([refusals, errors], [{ GATEWAY_UNAUTHORIZED: 1 }, 0]);
  assert.equal(countsOf(after.get("acme-dice"), "tool").timed, 4);
});

test("what fails in a service is counted: timers, reports, requests on the admin listener", async () => {
  const clock = manualClock();
  await using gateway = await startTestGateway({ pipeline, prepare: writeThirdParty, clock });
  clock.advance(3_000);
  const readyz = await fetch(`${gateway.adminUrl}/readyz`);
  assert.equal(readyz.status, 200);
  assert.equal(await (await fetch(`${gateway.adminUrl}/acme-clock/`)).text(), "tick");
  await assert.rejects(fetch(`${gateway.adminUrl}/acme-clock/broken`));
  let found = (await plugins(gateway)).get("acme-clock");
  // The time of a request on the admin listener ends when its connection has taken the whole answer.
  while (countsOf(found, "admin").timed !== 2) found = (await plugins(gateway)).get("acme-clock");
  const none = { refusals: {}, failures: {}, timeouts: 0 };
  assert.deepEqual(countsOf(found, "start"), { ...none, timed: 1, errors: 0 });
  assert.deepEqual(countsOf(found, "initialized"), { ...none, timed: 1, errors: 0 });
  assert.deepEqual(countsOf(found, "timer"), { ...none, timed: 3, errors: 3 });
  assert.deepEqual(countsOf(found, "admin"), { ...none, timed: 2, errors: 1 });
  const ready = countsOf(found, "ready");
  const backends = countsOf(found, "backends");
  assert.equal(ready.errors, 0);
  // Both are called for each report of readiness, and the surface asks for one, too.
  assert.ok(backends.timed !== undefined && backends.timed >= 1);
  assert.equal(backends.errors, backends.timed);
  assert.equal(ready.timed, backends.timed);
});

/** A step that does what the query of the request names. */
const gate = `
export default {
  kind: "step",
  name: "acme-gate",
  description: "Refuses, fails or hangs.",
  start: () => ({
    requestHeaders(x) {
      const { query } = x.request;
      if (query === "throw") throw new Error("broken");
      if (query === "hang") return new Promise(() => {});
      if (query === "") return undefined;
      return { status: Number(query), code: query === "409" ? "GATEWAY_CONFLICT" : "GATEWAY_SERVICE_UNAVAILABLE" };
    },
  }),
};
`;

test("all counts of a step are added up over its routes", async () => {
  const routes = ["/a", "/b"].map(
    (path) => `  - { path: ${path}, run: [{ acme-gate: {}, timeoutMs: 20 }], to: acme-plugins }\n`,
  );
  await using gateway = await startTestGateway({
    pipeline:
      pipeline.replace("plugins: {", "plugins: { acme-gate: ./acme-gate.js,") + routes.join(""),
    prepare(folder) {
      writeThirdParty(folder);
      writeFileSync(join(folder, "acme-gate.js"), gate);
    },
  });
  for (const path of ["/a", "/b"]) {
    for (const query of ["409", "503", "throw", "hang"]) {
      await (await fetch(`${gateway.url}${path}?${query}`)).arrayBuffer();
    }
  }
  const found = (await plugins(gateway)).get("acme-gate");
  const { timed = 0, ...counts } = countsOf(found, "request");
  // The first exchange of each route is timed, and not all that follow closely.
  assert.ok(timed >= 2, String(timed));
  assert.deepEqual(counts, {
    refusals: { GATEWAY_CONFLICT: 2 },
    failures: { GATEWAY_SERVICE_UNAVAILABLE: 2, GATEWAY_INTERNAL_ERROR: 4 },
    errors: 2,
    timeouts: 2,
  });
});
