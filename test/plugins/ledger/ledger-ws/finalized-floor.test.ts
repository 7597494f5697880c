/** The finalized head does not go back, whichever way a client receives it. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { TestGateway } from "../../../../plugins/contracts/testing.ts";
import { ChainNode, hashOf } from "../ledger/feed/chain-node.ts";
import { request } from "../ledger/fixture.ts";
import { startShipped } from "./shipped-gateway.ts";
import { connectWs } from "./ws-client.ts";

/** Starts a gateway that probes its nodes only once, so that it does not learn of new blocks from probes. */
const startGateway = (...nodes: readonly ChainNode[]): Promise<TestGateway> =>
  startShipped(nodes, { upstream: "probeMs: 3600000" });

test("a read of the finalized head is not behind the heads that a subscription has sent", async () => {
  await using ahead = await ChainNode.start();
  await using behind = await ChainNode.start();
  await using gateway = await startGateway(ahead, behind);
  await using client = await connectWs(`${gateway.url}/v1/ledger/rpc`, {
    key: (await gateway.issue({})).key,
  });
  await client.ask(request("chain_subscribeFinalizedHeads"));
  await client.next();
  assert.equal(ahead.open("chain_subscribeFinalizedHeads"), 1);
  ahead.advance(103);
  for (let number = 101; number <= 103; number++) {
    assert.ok((await client.next()).includes(`"number":"0x${number.toString(16)}"`));
  }
  for (let read = 0; read < 4; read++) {
    const answer = await client.ask(request("chain_getFinalizedHead"));
    assert.equal((JSON.parse(answer) as { result: string }).result, hashOf(103));
  }
});

test("a read at a block that a subscription has announced is answered, although another node lacks it", async () => {
  await using ahead = await ChainNode.start();
  await using behind = await ChainNode.start();
  const unknown = '"error":{"code":4003,"message":"Client error: UnknownBlock"}';
  ahead.answers.set("state_getStorage", '"result":"0x01"');
  behind.answers.set("state_getStorage", unknown);
  await using gateway = await startGateway(ahead, behind);
  await using client = await connectWs(`${gateway.url}/v1/ledger/rpc`, {
    key: (await gateway.issue({})).key,
  });
  await client.ask(request("chain_subscribeNewHeads"));
  await client.next();
  assert.equal(ahead.open("chain_subscribeNewHeads"), 1);
  ahead.advance(101);
  await client.next();
  for (const key of ["0x11", "0x12", "0x13", "0x14"]) {
    const params = JSON.stringify([key, hashOf(101)]);
    const answer = await client.ask(request("state_getStorage", params));
    assert.equal((JSON.parse(answer) as { result: string }).result, "0x01");
  }
});

const follow = request("chainHead_v1_follow", "[false]");

test("a follow fails after two seconds if no node has finalized what the client knows", async () => {
  await using ahead = await ChainNode.start();
  await using behind = await ChainNode.start();
  await using gateway = await startGateway(ahead, behind);
  const { key } = await gateway.issue({});
  await using client = await connectWs(`${gateway.url}/v1/ledger/rpc`, { key });
  await client.ask(follow);
  ahead.advance(101);
  while (!(await client.next()).includes('"finalized"'));
  await ahead[Symbol.asyncDispose]();
  assert.match(await client.next(), /"stop"/);
  assert.match(await client.ask(follow), /-32603/);
  assert.match(await client.ask(request("chain_getFinalizedHead")), /-32603/);
});
