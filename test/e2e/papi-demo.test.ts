/** PAPI (polkadot-api) with its own WebSocket provider, through the gateway to the demo node of `npm start`. */
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { after, before, test } from "node:test";
import { createClient, type PolkadotClient } from "polkadot-api";
import { getWsProvider } from "polkadot-api/ws";
import { startTestGateway, type TestGateway } from "../../plugins/contracts/testing.ts";
import { startDemoNode, type DemoNode } from "../../plugins/ledger/demo/node.ts";

const alice = "5GrwvaEF5zXb26Fz9rcQpDWS57CtERHpNehXCPcNoHGKutQY";

let node: DemoNode;
let gateway: TestGateway;
let client: PolkadotClient;
before(async () => {
  node = await startDemoNode();
  gateway = await startTestGateway({
    pipeline: await readFile(new URL("../../pipeline.yaml", import.meta.url), "utf8"),
    env: { LEDGER_RPC_URL: node.url },
  });
  const url = `${gateway.url.replace("http:", "ws:")}/v1/ledger/ws/${gateway.key}`;
  client = createClient(getWsProvider(url));
});
after(async () => {
  client?.destroy();
  await gateway?.[Symbol.asyncDispose]();
  await node?.close();
});

test("PAPI connects to the demo node, and reads blocks, storage, maps and runtime calls", async () => {
  const { name } = await client.getChainSpecData();
  assert.equal(name, "Coretime Demo");
  const { number, hash, parent } = await client.getFinalizedBlock();
  assert.equal(number, 8);
  assert.equal((await client.getBlockHeader(hash)).parentHash, parent);
  assert.ok((await client.getBlockBody(hash)).length >= 2);
  const api = client.getUnsafeApi();
  const nonce = await api.apis["AccountNonceApi"]!["account_nonce"]!(alice);
  const account = (await api.query["System"]!["Account"]!.getValue(alice)) as { nonce: number };
  assert.equal(account.nonce, nonce);
  const entries = await api.query["System"]!["Account"]!.getEntries();
  assert.ok(entries.length >= 6);
});
