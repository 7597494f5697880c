/** Which backends affect readiness: those that an operator has set, and more if `server.ready` says so. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { startDemoModel } from "../../plugins/inference/demo/model.ts";
import { startDemoNode } from "../../plugins/ledger/demo/node.ts";
import { startTestGateway, type TestGateway } from "../../plugins/contracts/testing.ts";
import { defineService, type BackendStatus } from "../../src/plugin.ts";
import { manualClock } from "../../src/testing/clock.ts";
import { startWithServices } from "./service-gateway.ts";

const shipped = readFileSync(new URL("../../pipeline.yaml", import.meta.url), "utf8");
// Nothing listens on port 1.
const unreachable = "http://127.0.0.1:1";
const withDeadDefault = shipped.replace("http://127.0.0.1:9944", unreachable);

interface Readiness {
  readonly status: number;
  readonly checks: Readonly<Record<string, string>>;
  readonly backends: Readonly<Record<string, object>>;
}

async function readiness({ adminUrl }: Pick<TestGateway, "adminUrl">): Promise<Readiness> {
  const response = await fetch(`${adminUrl}/readyz`);
  // The answer of /readyz: see src/http/admin.ts.
  const { checks, backends } = (await response.json()) as Omit<Readiness, "status">;
  return { status: response.status, checks, backends };
}

/** The metrics of backends: whether each one that is required can be used, and its servers by state. */
async function samples({ adminUrl }: TestGateway): Promise<string[]> {
  const text = await (await fetch(`${adminUrl}/metrics`)).text();
  return text.match(/^sluice_backend_.*$/gm) ?? [];
}

// Finding D5.
test("a node at the default address affects neither readiness nor metrics if a network is set", async () => {
  const model = await startDemoModel({ tokenMs: 1 });
  try {
    await using gateway = await startTestGateway({
      pipeline: withDeadDefault,
      env: { CONFIDENTIAL_CLASSIC_URL: model.url },
    });
    const { status, checks } = await readiness(gateway);
    assert.equal(checks["network confidential-classic"], "ok");
    assert.equal(
      checks["upstream ledger"],
      "no usable node, not required: its address is a default",
    );
    assert.equal(status, 200);
    const found = await samples(gateway);
    const network = 'kind="network",backend="network confidential-classic"';
    assert.ok(found.includes(`sluice_backend_up{${network}} 1`));
    assert.ok(
      found.some((line) => line.startsWith(`sluice_backend_servers{${network},state="active"`)),
    );
    // No alert may fire for a default address that nobody configured; its state is still shown.
    const node = 'kind="ledger",backend="upstream ledger"';
    assert.ok(!found.some((line) => line.startsWith(`sluice_backend_up{${node}`)));
    assert.ok(found.some((line) => line.startsWith(`sluice_backend_servers{${node}`)));
    await gateway.write(withDeadDefault.replace("confidential-classic:", "classic-two:"));
    await gateway.gateway.reloader.reload("test");
    const after = await samples(gateway);
    assert.ok(!after.some((line) => line.includes(network)), "a removed network has no series");
  } finally {
    await model.close();
  }
});

// Finding O1: one dead backend took all replicas out of service at once.
test("a dead node leaves a gateway ready whose network works", async () => {
  const model = await startDemoModel({ tokenMs: 1 });
  try {
    await using gateway = await startTestGateway({
      pipeline: withDeadDefault,
      env: { CONFIDENTIAL_CLASSIC_URL: model.url, LEDGER_RPC_URL: unreachable },
    });
    const { status, checks, backends } = await readiness(gateway);
    assert.equal(checks["upstream ledger"], "no usable node");
    assert.equal(status, 200);
    const { since, ...node } = backends["upstream ledger"] as { since?: string };
    assert.deepEqual(node, { state: "unusable", cause: "unreachable: ECONNREFUSED" });
    assert.ok(Math.abs(Date.now() - Date.parse(since ?? "")) < 60_000);
    assert.deepEqual(Object.keys(backends["network confidential-classic"] ?? {}), [
      "state",
      "since",
    ]);
  } finally {
    await model.close();
  }
});

test("a dead network leaves a gateway ready whose node works", async () => {
  const node = await startDemoNode();
  try {
    await using gateway = await startTestGateway({
      pipeline: shipped,
      env: { CONFIDENTIAL_CLASSIC_URL: unreachable, LEDGER_RPC_URL: node.url },
    });
    const { status, checks, backends } = await readiness(gateway);
    assert.equal(checks["network confidential-classic"], "no usable worker");
    assert.equal(status, 200);
    const { cause } = backends["network confidential-classic"] as { cause?: string };
    assert.equal(cause, "no status was read");
  } finally {
    await node.close();
  }
});

test("a gateway without any usable backend is not ready, and its metrics show them as down", async () => {
  await using gateway = await startTestGateway({
    pipeline: shipped,
    env: { CONFIDENTIAL_CLASSIC_URL: unreachable, LEDGER_RPC_URL: unreachable },
  });
  assert.equal((await readiness(gateway)).status, 503);
  const found = await samples(gateway);
  assert.ok(found.includes('sluice_backend_up{kind="ledger",backend="upstream ledger"} 0'));
});

function serviceWith(backends: () => readonly BackendStatus[]) {
  const start = () => ({ service: {}, backends });
  return defineService({ name: "backends", description: "Reports backends.", start });
}

test("/readyz reports since when a backend has its state", async () => {
  const clock = manualClock();
  let ready: true | string = true;
  const cause = "x".repeat(1_000);
  const service = serviceWith(() => [{ kind: "k", title: "upstream a", ready, cause }]);
  await using gateway = await startWithServices([service], { clock });
  const started = new Date(clock.now()).toISOString();
  const of = async (): Promise<unknown> => (await readiness(gateway)).backends["upstream a"];
  clock.advance(10_000);
  const since = new Date(clock.now() - 9_000).toISOString();
  assert.ok(since > started);
  assert.deepEqual(await of(), { state: "ok", since });
  ready = "down";
  clock.advance(1_000);
  const failedAt = new Date(clock.now()).toISOString();
  clock.advance(3_600_000);
  assert.deepEqual(await of(), { state: "unusable", since: failedAt, cause: "x".repeat(100) });
});

const alive: BackendStatus = { kind: "k", title: "network alive", ready: true };
const dead: BackendStatus = { kind: "k", title: "upstream dead", ready: "unreachable" };
const atDefault: BackendStatus = { ...dead, isDefault: true };
// Finding P27.
const optional: BackendStatus = { ...dead, isOptional: true };
const isDefault = "unreachable, not required: its address is a default";
const isOptional = "unreachable, not required";

for (const [ready, rows] of [
  ["any", [[[optional], 200, isOptional]]],
  [
    "all",
    [
      [[dead, alive], 503, "unreachable"],
      [[atDefault, alive], 200, isDefault],
      [[optional, alive], 200, isOptional],
    ],
  ],
  [
    ["dead"],
    [
      [[dead, alive], 503, "unreachable"],
      [[atDefault, alive], 503, "unreachable"],
      [[optional, alive], 503, "unreachable"],
    ],
  ],
  [["alive"], [[[dead, alive], 200, "unreachable"]]],
  [["missing"], [[[alive], 503, undefined]]],
] as const) {
  test(`server.ready: ${String(ready)} decides which backends must be usable`, async () => {
    let backends: readonly BackendStatus[] = [alive];
    const file = { server: { port: 0, ready } };
    await using gateway = await startWithServices([serviceWith(() => backends)], { file });
    for (const [reported, status, check] of rows) {
      backends = reported;
      const found = await readiness(gateway);
      assert.deepEqual([found.status, found.checks["upstream dead"]], [status, check]);
      const missing = ready[0] === "missing" ? "no backend of this name is in use" : undefined;
      assert.equal(found.checks["missing"], missing);
    }
  });
}

test("a network at the default address does not affect readiness if a node is set", async () => {
  const node = await startDemoNode();
  try {
    await using gateway = await startTestGateway({
      pipeline: shipped.replace("${CONFIDENTIAL_CLASSIC_URL:-}", `\${NOT_SET:-${unreachable}}`),
      env: { LEDGER_RPC_URL: node.url },
    });
    const { status, checks } = await readiness(gateway);
    assert.equal(
      checks["network confidential-classic"],
      "no usable worker, not required: its address is a default",
    );
    assert.equal(status, 200);
  } finally {
    await node.close();
  }
});

test("if every backend is at its default address, the defaults affect readiness", async () => {
  await using gateway = await startTestGateway({ pipeline: withDeadDefault });
  const { status, checks } = await readiness(gateway);
  assert.equal(checks["upstream ledger"], "no usable node");
  assert.equal(status, 503);
});
