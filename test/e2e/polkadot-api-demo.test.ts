/** A real client, the gateway and the demo node: the methods of `sluice dev` are enough for @polkadot/api. */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { startDemoNode, type DemoNode } from "../../plugins/ledger/demo/node.ts";
import { connectThroughGateway, type Client } from "./polkadot-api.ts";

const alice = "5GrwvaEF5zXb26Fz9rcQpDWS57CtERHpNehXCPcNoHGKutQY";

let node: DemoNode;
let client: Client;
before(async () => {
  node = await startDemoNode();
  client = await connectThroughGateway(node.url);
});
after(async () => {
  await client?.[Symbol.asyncDispose]();
  await node?.close();
});

test("the client connects and finds chain, runtime and constants", () => {
  const { api } = client;
  assert.equal(api.runtimeChain.toString(), "Coretime Demo");
  assert.equal(api.runtimeVersion.specVersion.toNumber(), 1_003_000);
  assert.equal(api.consts.balances.existentialDeposit.toString(), "1000000000");
});

test("all accounts, their nonces and the events of a block are read", async () => {
  const { api } = client;
  const page = await api.query.system.account.entriesPaged({ args: [], pageSize: 5 });
  assert.equal(page.length, 5);
  assert.equal((await api.query.system.account.entries()).length, 16);
  assert.equal((await api.call.accountNonceApi.accountNonce(alice)).toString(), "10");
  const hash = await api.rpc.chain.getBlockHash(4);
  const events = await (await api.at(hash)).query.system.events();
  assert.equal(Reflect.get(events, "length"), 27);
});

test("every header has the right hash, and every extrinsic can be decoded", async () => {
  const { api } = client;
  for (let number = 1; number <= 8; number++) {
    const hash = await api.rpc.chain.getBlockHash(number);
    const { block } = await api.rpc.chain.getBlock(hash);
    assert.equal(block.header.hash.toHex(), hash.toHex());
    assert.equal(block.extrinsics[0]!.method.section, "timestamp");
  }
});

test("the same client can read from the node over a WebSocket", async () => {
  await using other = await connectThroughGateway(node.url.replace("http:", "ws:"));
  const [mine, theirs] = await Promise.all([
    client.api.query.system.account.entries(),
    other.api.query.system.account.entries(),
  ]);
  assert.deepEqual(
    theirs.map(([key, value]) => [key.toHex(), value.toHex()]),
    mine.map(([key, value]) => [key.toHex(), value.toHex()]),
  );
});
