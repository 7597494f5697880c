/**
 * Which backends affect readiness: one that an operator has set must be usable, and more if `server.ready` says so. The
 * defaults of the shipped pipeline.yaml do not count.
 */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { startDemoModel } from "../../plugins/inference/demo/model.ts";
import { startDemoNode } from "../../plugins/ledger/demo/node.ts";
import { startTestGateway, type TestGateway } from "../../plugins/contracts/testing.ts";
import { readiness as readinessOf, ReadinessWatch } from "../../src/http/readiness.ts";
import type { BackendStatus } from "../../src/plugin.ts";
import { manualClock } from "../../src/testing/clock.ts";

const shipped = readFileSync(new URL("../../pipeline.yaml", import.meta.url), "utf8");
// Nothing listens on port 1.
const unreachable = "http://127.0.0.1:1";
const withDeadDefault = shipped.replace("http://127.0.0.1:9944", unreachable);

interface Readiness {
  readonly status: number;
  readonly checks: Readonly<Record<string, string>>;
  readonly backends: Readonly<Record<string, object>>;
}

/** Returns the shipped pipeline.yaml with a node and a network at addresses where nothing listens, and `server.ready`. */
const requiring = (ready: string): string =>
  withDeadDefault.replace("server: #", `server:\n  ready: ${ready}\n  #`);

async function readiness({ adminUrl }: TestGateway): Promise<Readiness> {
  const response = await fetch(`${adminUrl}/readyz`);
  // The answer of /readyz: see src/http/admin.ts.
  const { checks, backends } = (await response.json()) as Omit<Readiness, "status">;
  return { status: response.status, checks, backends };
}

// Finding D5.
test("a node at the default address does not affect readiness if a network is set", async () => {
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

test("a gateway without any usable backend is not ready", async () => {
  await using gateway = await startTestGateway({
    pipeline: shipped,
    env: { CONFIDENTIAL_CLASSIC_URL: unreachable, LEDGER_RPC_URL: unreachable },
  });
  assert.equal((await readiness(gateway)).status, 503);
});

for (const [ready, status] of [
  ["all", 503],
  ["[ledger]", 503],
  ["[confidential-classic]", 200],
  ["[missing]", 503],
] as const) {
  test(`server.ready: ${ready} with a dead node and a network that works is ${status}`, async () => {
    const model = await startDemoModel({ tokenMs: 1 });
    try {
      const pipeline = requiring(ready);
      const env = { CONFIDENTIAL_CLASSIC_URL: model.url, LEDGER_RPC_URL: unreachable };
      await using gateway = await startTestGateway({ pipeline, env });
      const found = await readiness(gateway);
      assert.equal(found.status, status);
      if (ready === "[missing]") {
        assert.equal(found.checks["missing"], "no backend of this name is in use");
      }
    } finally {
      await model.close();
    }
  });
}

test("server.ready: all does not require a node at the default address, but its name does", async () => {
  const model = await startDemoModel({ tokenMs: 1 });
  try {
    const env = { CONFIDENTIAL_CLASSIC_URL: model.url };
    for (const [ready, status] of [
      ["all", 200],
      ["[ledger]", 503],
    ] as const) {
      await using gateway = await startTestGateway({ pipeline: requiring(ready), env });
      assert.equal((await readiness(gateway)).status, status, ready);
    }
  } finally {
    await model.close();
  }
});

test("/readyz reports since when a backend has its state", async () => {
  const clock = manualClock();
  let ready: true | string = true;
  const backends = (): BackendStatus[] => [
    { kind: "k", title: "upstream a", ready, cause: "x".repeat(1_000) },
  ];
  const services = new Map([["s", { service: {}, backends }]]);
  const parts = { draining: false, generation: { services } };
  using watch = new ReadinessWatch(() => parts, clock);
  const of = (): object | undefined => watch.report().backends?.["upstream a"];
  clock.advance(10_000);
  assert.deepEqual(of(), { state: "ok", since: new Date(clock.now() - 9_000).toISOString() });
  ready = "down";
  clock.advance(1_000);
  const failedAt = new Date(clock.now()).toISOString();
  clock.advance(3_600_000);
  assert.deepEqual(of(), { state: "unusable", since: failedAt, cause: "x".repeat(100) });
});

// Finding P27.
test("an optional backend affects readiness only if server.ready names it", () => {
  const title = "upstream search";
  const backends = (): BackendStatus[] => [
    { kind: "search", title, ready: "unreachable", isOptional: true },
  ];
  const services = new Map([["search", { service: {}, backends }]]);
  const of = (wanted?: "all" | string[]): ReturnType<typeof readinessOf> =>
    readinessOf({ draining: false, generation: { services }, ...(wanted && { wanted }) });
  assert.deepEqual([of().ready, of().checks[title]], [true, "unreachable, not required"]);
  assert.equal(of("all").ready, true);
  assert.deepEqual([of(["search"]).ready, of(["search"]).checks[title]], [false, "unreachable"]);
});

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
