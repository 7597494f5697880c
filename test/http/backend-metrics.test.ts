/** The metrics of backends: whether each one that is required can be used, and its servers by state. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { startDemoModel } from "../../plugins/inference/demo/model.ts";
import { startTestGateway, type TestGateway } from "../../plugins/contracts/testing.ts";

const shipped = readFileSync(new URL("../../pipeline.yaml", import.meta.url), "utf8");
// Nothing listens on port 1.
const unreachable = "http://127.0.0.1:1";
const pipeline = shipped.replace("http://127.0.0.1:9944", unreachable);

async function samples({ adminUrl }: TestGateway): Promise<string[]> {
  const text = await (await fetch(`${adminUrl}/metrics`)).text();
  return text.match(/^sluice_backend_.*$/gm) ?? [];
}

test("a network shows its workers by state, and a default address that nobody configured is not down", async () => {
  const model = await startDemoModel({ tokenMs: 1 });
  try {
    const env = { CONFIDENTIAL_CLASSIC_URL: model.url };
    await using gateway = await startTestGateway({ pipeline, env });
    const found = await samples(gateway);
    const network = 'kind="network",backend="network confidential-classic"';
    assert.ok(found.includes(`sluice_backend_up{${network}} 1`));
    assert.ok(
      found.some((line) => line.startsWith(`sluice_backend_servers{${network},state="active"`)),
    );
    // The node's address is the default, so no alert may fire for it; its state is still shown.
    const node = 'kind="ledger",backend="upstream ledger"';
    assert.ok(!found.some((line) => line.startsWith(`sluice_backend_up{${node}`)));
    assert.ok(found.some((line) => line.startsWith(`sluice_backend_servers{${node}`)));
    await gateway.write(pipeline.replace("confidential-classic:", "classic-two:"));
    await gateway.gateway.reloader.reload("test");
    const after = await samples(gateway);
    assert.ok(!after.some((line) => line.includes(network)), "a removed network has no series");
  } finally {
    await model.close();
  }
});

test("a configured backend that cannot be used is down", async () => {
  await using gateway = await startTestGateway({ pipeline, env: { LEDGER_RPC_URL: unreachable } });
  const found = await samples(gateway);
  assert.ok(found.includes('sluice_backend_up{kind="ledger",backend="upstream ledger"} 0'));
});
