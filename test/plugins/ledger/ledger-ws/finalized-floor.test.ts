/** The finalized head does not go back, whichever way a client has heard of it. */
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";
import { hashOfHeader } from "../../../../plugins/ledger/ledger/feed/announce-head.ts";
import { startTestGateway, type TestGateway } from "../../../../plugins/contracts/testing.ts";
import { untilNodesUp } from "../nodes-up.ts";
import { until } from "../until.ts";
import { ChainNode, hashOf, headerOf } from "../ledger/feed/chain-node.ts";
import { request } from "../ledger/fixture.ts";
import { FollowNode, hashAt } from "../ledger/follow/follow-node.ts";
import { connectWs } from "./ws-client.ts";

const shipped = await readFile(new URL("../../../../pipeline.yaml", import.meta.url), "utf8");

/** Starts a gateway that probes its nodes only once, so that it does not learn of new blocks from probes. */
async function startGateway(urls: readonly string[]): Promise<TestGateway> {
  const gateway = await startTestGateway({
    pipeline: shipped.replace("aliases: {", "probeMs: 3600000\n    aliases: {"),
    env: { LEDGER_RPC_URL: urls.join(",") },
  });
  await untilNodesUp(gateway, urls.length);
  return gateway;
}

test("a read of the finalized head is not behind the heads that a subscription has sent", async () => {
  await using ahead = await ChainNode.start();
  await using behind = await ChainNode.start();
  await using gateway = await startGateway([ahead.url, behind.url]);
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

test("a read at a block that a follow has announced goes to the node of the follow", async () => {
  await using ahead = await FollowNode.start();
  await using behind = await FollowNode.start();
  ahead.answers.set("state_getStorage", "0x01");
  behind.answers.set("state_getStorage", "0x02");
  await using gateway = await startGateway([ahead.url, behind.url]);
  await using client = await connectWs(`${gateway.url}/v1/ledger/rpc`, {
    key: (await gateway.issue({})).key,
  });
  await client.ask(request("chainHead_v1_follow", "[false]"));
  // The events `initialized` and `bestBlockChanged`.
  await client.next();
  await client.next();
  assert.equal(ahead.follows.size, 1);
  ahead.add(hashAt(101), hashAt(100));
  assert.match(await client.next(), /"newBlock"/);
  await client.next();
  for (const key of ["0x11", "0x12", "0x13", "0x14"]) {
    const params = JSON.stringify([key, hashAt(101)]);
    const answer = await client.ask(request("state_getStorage", params));
    assert.equal((JSON.parse(answer) as { result: string }).result, "0x01");
  }
});

const follow = request("chainHead_v1_follow", "[false]");

test("a read at a block whose head a subscription has announced goes to the node of the subscription", async () => {
  await using ahead = await ChainNode.start();
  await using behind = await ChainNode.start();
  ahead.answers.set("state_getStorage", '"result":"0x01"');
  behind.answers.set("state_getStorage", '"result":"0x02"');
  await using gateway = await startGateway([ahead.url, behind.url]);
  await using client = await connectWs(`${gateway.url}/v1/ledger/rpc`, {
    key: (await gateway.issue({})).key,
  });
  await client.ask(request("chain_subscribeNewHeads"));
  await client.next();
  assert.equal(ahead.open("chain_subscribeNewHeads"), 1);
  ahead.advance(101);
  await client.next();
  for (const key of ["0x11", "0x12", "0x13", "0x14"]) {
    const params = JSON.stringify([key, hashOfHeader(JSON.parse(headerOf(101)))]);
    const answer = await client.ask(request("state_getStorage", params));
    assert.equal((JSON.parse(answer) as { result: string }).result, "0x01");
  }
});

test("a follow that starts again at a node that lags begins when that node has caught up", async () => {
  await using ahead = await FollowNode.start();
  await using behind = await FollowNode.start();
  await using gateway = await startGateway([ahead.url, behind.url]);
  const { key } = await gateway.issue({});
  await using client = await connectWs(`${gateway.url}/v1/ledger/rpc`, { key });
  await client.ask(follow);
  ahead.add(hashAt(101), hashAt(100));
  ahead.finalize([hashAt(101)]);
  while (!(await client.next()).includes('"finalized"'));
  await ahead[Symbol.asyncDispose]();
  assert.match(await client.next(), /"stop"/);
  await client.ask(follow);
  behind.add(hashAt(101), hashAt(100));
  behind.finalize([hashAt(101)]);
  const first = await client.next();
  assert.match(first, /"initialized"/);
  assert.ok(first.includes(hashAt(101)));
});

test("a client that joins a follow is not told of a finalized block below one that it has read", async () => {
  await using ahead = await FollowNode.start();
  await using other = await FollowNode.start();
  await using gateway = await startGateway([ahead.url, other.url]);
  const { key } = await gateway.issue({});
  await using early = await connectWs(`${gateway.url}/v1/ledger/rpc`, { key });
  await early.ask(follow);
  await using client = await connectWs(`${gateway.url}/v1/ledger/rpc`, { key });
  other.answers.set("chain_getFinalizedHead", hashAt(101));
  await until(async () => {
    const answer = await client.ask(request("chain_getFinalizedHead"));
    return (JSON.parse(answer) as { result: string }).result === hashAt(101);
  });
  await client.ask(follow);
  ahead.add(hashAt(101), hashAt(100));
  ahead.finalize([hashAt(101)]);
  const first = await client.next();
  assert.match(first, /"initialized"/);
  assert.ok(first.includes(hashAt(101)));
});
