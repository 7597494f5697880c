/** Gateways that share credit in PostgreSQL need no data folder. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { test } from "node:test";
import { createSeal } from "../../../../src/store/seal.ts";
import { spawnGateway, sluice } from "../../../e2e/gateway-process.ts";
import { startRpcNode } from "../../../e2e/rpc-node.ts";
import { createDatabase, runSql } from "../../../store/servers.ts";
import { upgrade } from "../shipping/fixture.ts";

const secret = "the secret of gateways without a folder";
const shippedPipeline = join(import.meta.dirname, "../../../../pipeline.yaml");
/** No user can create it, not even root. */
const impossibleFolder = "/proc/sluice-data";

const hasBubblewrap = spawnSync("bwrap", ["--version"]).error === undefined;
const readOnly =
  "bwrap --unshare-user --uid 65534 --gid 65534 --die-with-parent --ro-bind / / --dev /dev --proc /proc".split(
    " ",
  );

test("a gateway that cannot create its data folder, and may not write anywhere, serves and charges requests", async (t) => {
  const url = await createDatabase(t);
  await upgrade(url, createSeal(secret));
  await using node = await startRpcNode();
  const env = {
    DATABASE_URL: url,
    GATEWAY_SECRET: secret,
    DATA_DIR: impossibleFolder,
    LEDGER_RPC_URL: node.url,
  };
  const run = (...args: string[]): Record<string, string> =>
    JSON.parse(sluice([...args, "--config", shippedPipeline, "--json"], env));
  const { id = "" } = run("workspaces", "create", "--name", "t", "--plan", "developer");
  const { key } = run("keys", "create", "--workspace", id);
  const gateway = await spawnGateway(shippedPipeline, env, hasBubblewrap ? readOnly : []);
  t.after(async () => {
    gateway.child.kill("SIGKILL");
    await gateway.exited;
  });
  assert.equal((await fetch(`${gateway.url}/readyz`)).status, 200);
  const response = await fetch(`${gateway.url}/v1/ledger/rpc`, {
    method: "POST",
    headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
    body: JSON.stringify({ jsonrpc: "2.0", id: 1, method: "system_chain", params: [] }),
  });
  assert.deepEqual(await response.json(), { jsonrpc: "2.0", id: 1, result: "Test" });
  const charges = await runSql(url, "SELECT surface, method FROM sluice.usage");
  assert.deepEqual(charges, [{ surface: "ledger-rpc", method: "system_chain" }]);
});
