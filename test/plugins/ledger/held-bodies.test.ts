/** Large calls and messages that wait for a node make room for other callers, and what they held is released. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { TestKey } from "../../../plugins/contracts/testing.ts";
import {
  callOf,
  heldMethod,
  heldMilliCu,
  largeBodies,
  mebibyte,
  startLargeCalls,
  type Asked,
  type LargeCalls,
} from "./large-calls.ts";
import { connectWs, type WsClient } from "./ledger-ws/ws-client.ts";

/** Calls of this size are shared. */
const small = 60 * 1024;
const refused = callOf("unknown_method", 2 * mebibyte);

for (const [title, body] of Object.entries(largeBodies)) {
  test(`the newest ${title} of the dearest key is cut when large calls fill the bound`, async (t) => {
    const gateway = await startLargeCalls(t);
    const waiting: Asked[] = [];
    const owners = [4, 3].flatMap((count, at) =>
      Array.from({ length: count }, () => (at === 0 ? gateway.dear : gateway.other)),
    );
    for (const owner of owners) {
      waiting.push(gateway.ask(owner, body));
      await gateway.holds(waiting.length * mebibyte);
    }
    assert.equal(await gateway.ask(gateway.third, refused).status, 200);
    assert.equal(await waiting[3]?.status, undefined);
    await gateway.holds(6 * mebibyte);
  });

  test(`a ${title} whose client has left holds nothing, and the node's work is charged`, async (t) => {
    const gateway = await startLargeCalls(t);
    const { sent } = gateway.ask(gateway.dear, body);
    await gateway.holds(mebibyte);
    while (gateway.node.count(heldMethod) === 0) await new Promise(setImmediate);
    sent.destroy();
    await gateway.holds(0);
    gateway.node.release();
    await gateway.charges(() => gateway.node.count(heldMethod) * heldMilliCu);
  });
}

test("a call that waits for a connection is not sent after its client has left", async (t) => {
  const gateway = await startLargeCalls(t);
  void gateway.ask(gateway.dear, callOf(heldMethod, small));
  while (gateway.node.count(heldMethod) === 0) await new Promise(setImmediate);
  const { sent } = gateway.ask(gateway.dear, largeBodies.call);
  await gateway.holds(mebibyte);
  sent.destroy();
  await gateway.holds(0);
  gateway.node.release();
  assert.equal(await gateway.ask(gateway.dear, callOf(heldMethod, 2 * small)).status, 200);
  assert.equal(gateway.node.count(heldMethod), 2);
  await gateway.charges(() => 2 * heldMilliCu);
});

test("a call that others wait for continues after one of its clients has left", async (t) => {
  const gateway = await startLargeCalls(t);
  const { sent } = gateway.ask(gateway.dear, callOf(heldMethod, small));
  while (gateway.node.count(heldMethod) === 0) await new Promise(setImmediate);
  const { status } = gateway.ask(gateway.other, callOf(heldMethod, small));
  await gateway.shows(
    `sluice_ledger_calls_total{upstream="ledger",method="${heldMethod}",source="flight"} 1`,
  );
  sent.destroy();
  await new Promise((resolve) => sent.once("close", resolve));
  assert.equal(await gateway.ask(gateway.third, refused).status, 200);
  gateway.node.release();
  assert.equal(await status, 200);
  assert.equal(gateway.node.count(heldMethod), 1);
  await gateway.charges(() => 2 * heldMilliCu);
});

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
