/** Which backends affect readiness: those that an operator has set, not the defaults of the shipped pipeline.yaml. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { startDemoModel } from "../../plugins/inference/demo/model.ts";
import { startDemoNode } from "../../plugins/ledger/demo/node.ts";
import { startTestGateway, type TestGateway } from "../../src/testing/gateway.ts";

const shipped = readFileSync(new URL("../../pipeline.yaml", import.meta.url), "utf8");
// Nothing listens on port 1.
const unreachable = "http://127.0.0.1:1";
const withDeadDefault = shipped.replace("http://127.0.0.1:9944", unreachable);

interface Readiness {
  readonly status: number;
  readonly checks: Readonly<Record<string, string>>;
}

async function readiness({ adminUrl }: TestGateway): Promise<Readiness> {
  const response = await fetch(`${adminUrl}/readyz`);
  // The answer of /readyz: see src/http/admin.ts.
  const { checks } = (await response.json()) as Pick<Readiness, "checks">;
  return { status: response.status, checks };
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

test("a node that is set in the environment affects readiness, even at the default address", async () => {
  const model = await startDemoModel({ tokenMs: 1 });
  try {
    await using gateway = await startTestGateway({
      pipeline: withDeadDefault,
      env: { CONFIDENTIAL_CLASSIC_URL: model.url, LEDGER_RPC_URL: unreachable },
    });
    const { status, checks } = await readiness(gateway);
    assert.equal(checks["upstream ledger"], "no usable node");
    assert.equal(status, 503);
  } finally {
    await model.close();
  }
});

test("a node that pipeline.yaml sets without a variable affects readiness", async () => {
  const model = await startDemoModel({ tokenMs: 1 });
  try {
    const named = withDeadDefault.replace(`\${LEDGER_RPC_URL:-${unreachable}}`, unreachable);
    assert.notEqual(named, withDeadDefault);
    await using gateway = await startTestGateway({
      pipeline: named,
      env: { CONFIDENTIAL_CLASSIC_URL: model.url },
    });
    assert.equal((await readiness(gateway)).status, 503);
  } finally {
    await model.close();
  }
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
