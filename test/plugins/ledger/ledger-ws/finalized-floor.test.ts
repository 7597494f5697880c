/** The finalized head does not go back, whichever way a client has heard of it. */
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";
import { startTestGateway, type TestGateway } from "../../../../plugins/contracts/testing.ts";
import { untilNodesUp } from "../nodes-up.ts";
import { ChainNode, hashOf } from "../ledger/feed/chain-node.ts";
import { request } from "../ledger/fixture.ts";
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
    key: gateway.issue({}).key,
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
