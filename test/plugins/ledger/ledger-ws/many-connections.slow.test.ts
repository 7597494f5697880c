/** A thousand clients that are connected and mostly idle. Their memory is measured in bench/, not here. */
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";
import { startTestGateway } from "../../../../plugins/contracts/testing.ts";
import { ChainNode, headerOf } from "../ledger/feed/chain-node.ts";
import { request } from "../ledger/fixture.ts";
import { untilNodesUp } from "../nodes-up.ts";
import { until } from "../until.ts";
import { connectWs, type WsClient } from "./ws-client.ts";

const shipped = await readFile(new URL("../../../../pipeline.yaml", import.meta.url), "utf8");
const count = 1000;

test("1,000 idle connections share one subscription, stay open, and get a head and 1001", async () => {
  await using node = await ChainNode.start();
  const gateway = await startTestGateway({
    pipeline: shipped,
    env: { LEDGER_RPC_URL: node.url },
  });
  await using _ = gateway;
  await untilNodesUp(gateway, 1);
  await using clients = new AsyncDisposableStack();
  const open: WsClient[] = [];
  while (open.length < count) {
    // Each key has its own bucket for the handshakes and the calls.
    const { key } = await gateway.issue({});
    const more = Array.from({ length: 50 }, () =>
      connectWs(`${gateway.url}/v1/ledger/rpc`, { key }),
    );
    open.push(...(await Promise.all(more)).map((client) => clients.use(client)));
  }
  await Promise.all(
    open.map(async (client) => {
      assert.match(await client.ask(request("chain_subscribeNewHeads")), /"result":"/);
      assert.match(await client.next(), /chain_newHead/);
    }),
  );
  assert.equal(node.open("chain_subscribeNewHeads"), 1);
  node.advance(node.best + 1);
  for (const client of open) {
    assert.ok((await client.next()).includes(headerOf(node.best)));
  }
  const stopped = gateway.gateway.stop();
  for (const client of open) assert.equal(await client.closed, 1001);
  await stopped;
  await until(() => node.subscribers.size === 0);
});
