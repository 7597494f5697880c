import assert from "node:assert/strict";
import { test } from "node:test";

import {
  PROBE_MS,
  startChainNode,
  startPool,
  until,
  type ChainNode,
  type PoolUnderTest,
} from "./nodes.ts";
import { onChain, startNode } from "./scripted-node.ts";

/** Keeps the node from answering probes until the returned function is called. It still answers calls. */
function holdProbes(node: ChainNode): () => void {
  const { script } = node;
  const held: Parameters<typeof script>[0][] = [];
  node.script = (received) => {
    if (received.call().method === "system_health") held.push(received);
    else script(received);
  };
  return () => {
    node.script = script;
    for (const received of held.splice(0)) script(received);
  };
}

/** Resolves when the node has answered a whole probe. */
const observed = (under: PoolUnderTest, at: number): Promise<void> =>
  until(() => under.pool.status()[at]?.best !== undefined);

test("until the first node has been probed, only that node is called", async () => {
  await using a = await startChainNode("a");
  await using b = await startChainNode("b", { genesis: "0x00bb" });
  const release = holdProbes(a);
  await using under = startPool([a.url, b.url]);
  for (let i = 0; i < 3; i++) assert.equal(await under.outcome(), '"a"');
  await observed(under, 1);
  assert.deepEqual(under.exclusionReasons(), ["unprobed", "unprobed"]);
  assert.equal(under.pool.ready, false);
  for (let i = 0; i < 3; i++) assert.equal(await under.outcome(), '"a"');
  release();
  await under.pool.firstProbe;
  assert.deepEqual(under.exclusionReasons(), [undefined, "other_chain"]);
  assert.equal(b.asked.length, 0);
});

test("if the first node does not answer its first probe within 2 s, the next node defines the chain", async () => {
  await using a = await startChainNode("a");
  await using b = await startChainNode("b");
  const release = holdProbes(a);
  await using under = startPool([a.url, b.url]);
  await observed(under, 1);
  under.clock.advance(1_999);
  assert.equal(under.pool.ready, false);
  under.clock.advance(1);
  assert.deepEqual(under.exclusionReasons(), ["unprobed", undefined]);
  for (let i = 0; i < 3; i++) assert.equal(await under.outcome(), '"b"');
  release();
  await under.pool.firstProbe;
  assert.deepEqual(under.exclusionReasons(), [undefined, undefined]);
});

test("if the first node is down, the next node defines the chain at once", async () => {
  await using a = await startChainNode("a");
  await using b = await startChainNode("b");
  await a.close();
  await using under = startPool([a.url, b.url]);
  await under.pool.firstProbe;
  assert.deepEqual(under.exclusionReasons(), ["unreachable", undefined]);
  assert.equal(await under.outcome(), '"b"');
});

test("a node whose chain is unknown is not called, even if the others have faults", async () => {
  await using a = await startChainNode("a", { syncing: true });
  await using b = await startChainNode("b");
  holdProbes(b);
  await using under = startPool([a.url, b.url]);
  await observed(under, 0);
  assert.deepEqual(under.exclusionReasons(), ["syncing", "unprobed"]);
  for (let i = 0; i < 3; i++) assert.equal(await under.outcome(), '"a"');
  await a.close();
  under.clock.advance(PROBE_MS);
  await until(() => under.exclusionReasons()[0] === "unreachable");
  assert.equal(await under.outcome(), "unreachable");
  assert.equal(b.asked.length, 0);
});

test("the first node of the configuration defines the chain, even if it answers last", async () => {
  await using a = await startChainNode("a");
  await using b = await startChainNode("b", { genesis: "0x00bb" });
  await a.close();
  await using under = startPool([a.url, b.url]);
  await under.pool.firstProbe;
  assert.deepEqual(under.exclusionReasons(), ["unreachable", undefined]);
  const { epoch } = under.pool;
  await using _back = await startNode(onChain(a.chain), { port: a.port });
  await under.probes(() => under.exclusionReasons()[0] === undefined);
  assert.deepEqual(under.exclusionReasons(), [undefined, "other_chain"]);
  assert.equal(under.pool.epoch, epoch + 1);
});
