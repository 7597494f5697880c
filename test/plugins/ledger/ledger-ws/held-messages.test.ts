/** Large messages that wait for a node make room for other callers, and what they held is released. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { TestKey } from "../../../../plugins/contracts/testing.ts";
import {
  callOf,
  heldMethod,
  heldMilliCu,
  largeBodies,
  mebibyte,
  startLargeCalls,
  type LargeCalls,
} from "../large-calls.ts";
import { connectWs, type WsClient } from "./ws-client.ts";

/** `ws` accepts at most one mebibyte per message. */
const subscribe = callOf("state_subscribeStorage", mebibyte);

async function connect(
  { url }: LargeCalls,
  clients: AsyncDisposableStack,
  { key }: TestKey,
): Promise<WsClient> {
  return clients.use(await connectWs(`${url}/v1/ledger/rpc`, { key }));
}

test("the newest connection of the dearest key is closed when a waiting batch of each fills the bound", async (t) => {
  const gateway = await startLargeCalls(t);
  await using clients = new AsyncDisposableStack();
  const open: WsClient[] = [];
  for (const owner of [
    ...Array<TestKey>(4).fill(gateway.dear),
    ...Array<TestKey>(3).fill(gateway.other),
  ]) {
    const client = await connect(gateway, clients, owner);
    client.send(largeBodies.batch);
    open.push(client);
    await gateway.holds(open.length * mebibyte);
  }
  const third = await connect(gateway, clients, gateway.third);
  third.send(largeBodies.batch);
  third.send(largeBodies.batch);
  assert.equal(await open[3]?.closed, 1013);
  await gateway.holds(8 * mebibyte);
});

test("a batch whose client has left holds nothing, and the node's work is charged", async (t) => {
  const gateway = await startLargeCalls(t);
  await using clients = new AsyncDisposableStack();
  const client = await connect(gateway, clients, gateway.dear);
  client.send(largeBodies.batch);
  await gateway.holds(mebibyte);
  while (gateway.node.count(heldMethod) === 0) await new Promise(setImmediate);
  client.socket.terminate();
  await gateway.holds(0);
  gateway.node.release();
  await gateway.charges(() => gateway.node.count(heldMethod) * heldMilliCu, "ledger-ws");
});

test("a message above the share of its key is refused, and the connection lives", async (t) => {
  const gateway = await startLargeCalls(t);
  await using clients = new AsyncDisposableStack();
  const client = await connect(gateway, clients, gateway.dear);
  for (let count = 1; count <= 4; count++) {
    client.send(largeBodies.call);
    await gateway.holds(count * mebibyte);
  }
  for (const message of [largeBodies.call, subscribe]) {
    const { error } = JSON.parse(await client.ask(message)) as { error: { message: string } };
    assert.equal(error.message, "Too Many Requests");
  }
  gateway.node.release();
  for (let count = 0; count < 4; count++) assert.match(await client.next(), /Method not found/);
  await gateway.holds(0);
});
