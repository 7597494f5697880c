/** Gateways that share credit in PostgreSQL need no data folder. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { createSeal } from "../../../../src/store/seal.ts";
import { spawnGateway, sluice } from "../../../e2e/gateway-process.ts";
import { startRpcNode } from "../../../e2e/rpc-node.ts";
import { temporaryFolder } from "../../../store/folder.ts";
import { createDatabase, runSql } from "../../../store/servers.ts";
import { upgrade } from "../shipping/fixture.ts";

const secret = "the secret of gateways without a folder";
const shippedPipeline = join(import.meta.dirname, "../../../../pipeline.yaml");
/** No user can create it, not even root. */
const impossibleFolder = "/proc/sluice-data";

/** Starts the shipped file with PostgreSQL, calls the node through it, and checks the charge. */
async function serveCharged(
  t: TestContext,
  dataDir: string,
  wrapper: readonly string[] = [],
): Promise<void> {
  const url = await createDatabase(t);
  await upgrade(url, createSeal(secret));
  await using node = await startRpcNode();
  const env = {
    DATABASE_URL: url,
    GATEWAY_SECRET: secret,
    DATA_DIR: dataDir,
    LEDGER_RPC_URL: node.url,
  };
  const run = (...args: string[]): Record<string, string> =>
    JSON.parse(sluice([...args, "--config", shippedPipeline, "--json"], env));
  const { id = "" } = run("workspaces", "create", "--name", "t", "--plan", "developer");
  const { key } = run("keys", "create", "--workspace", id);
  const gateway = await spawnGateway(shippedPipeline, env, wrapper);
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
}

test("a gateway whose data folder cannot be created serves and charges requests", async (t) => {
  await serveCharged(t, impossibleFolder);
});

const hasBubblewrap = spawnSync("bwrap", ["--version"]).error === undefined;
test(
  "a gateway that may not write anywhere serves and charges requests",
  { skip: !hasBubblewrap },
  async (t) => {
    const wrapper = "bwrap --unshare-user --uid 65534 --gid 65534 --die-with-parent --ro-bind / /";
    const dataDir = join(temporaryFolder(t), "data");
    await serveCharged(t, dataDir, [...wrapper.split(" "), "--dev", "/dev", "--proc", "/proc"]);
    assert.ok(!existsSync(dataDir));
  },
);

test("two gateways that do not use their data folder may have the same one in `store.data`", async (t) => {
  const dataDir = join(temporaryFolder(t), "data");
  mkdirSync(dataDir);
  const url = await createDatabase(t);
  await upgrade(url, createSeal(secret));
  const env = { DATABASE_URL: url, GATEWAY_SECRET: secret, DATA_DIR: dataDir };
  for (let n = 0; n < 2; n++) {
    const gateway = await spawnGateway(shippedPipeline, env);
    t.after(async () => {
      gateway.child.kill("SIGKILL");
      await gateway.exited;
    });
  }
});
