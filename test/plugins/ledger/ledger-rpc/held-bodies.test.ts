/** Large calls that wait for a node make room for other callers, and what they held is released. */
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  callOf,
  heldMethod,
  heldMilliCu,
  largeBodies,
  mebibyte,
  startLargeCalls,
  type Asked,
} from "../large-calls.ts";

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
