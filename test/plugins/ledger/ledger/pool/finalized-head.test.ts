/** The finalized head of a pool while its nodes are lost, or are not known yet. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { hashOf, startBlockNode } from "./block-node.ts";
import { PROBE_MS, startPool, until, type PoolUnderTest } from "./nodes.ts";

const finalizedHead = { method: "chain_getFinalizedHead", params: "[]" };
const quoted = (number: number): string => `"${hashOf(number)}"`;

async function read(under: PoolUnderTest, times = 4): Promise<readonly string[]> {
  const answers: string[] = [];
  for (let i = 0; i < times; i++) answers.push(await under.outcome(finalizedHead));
  return answers;
}

/** Announces the finalized head of the first node, as a subscription does. */
function announce(under: PoolUnderTest, number: number, hash?: string): void {
  const [first] = under.pool.status();
  under.pool.announcements?.announcedFinalized(first!.node, number, hash);
}

test("the hash of an announced finalized head is known, although its node was lost", async () => {
  await using lost = await startBlockNode("lost");
  await using behind = await startBlockNode("behind", { best: 98 });
  let asked = 0;
  lost.says = (method, [number]) => {
    if (method === "chain_getBlockHash" && number === 99) asked++;
    return undefined;
  };
  await using under = startPool([lost.url, behind.url]);
  await under.pool.firstProbe;
  announce(under, 99);
  // The answer of the node has arrived when that to a later probe has.
  await until(() => asked === 1);
  await under.pool.probe();
  await lost.close();
  await under.pool.probe();
  assert.deepEqual(await read(under), Array(4).fill(quoted(99)));
});

test("while the hash of the finalized head cannot be read, a node that is behind gives no answer", async () => {
  await using lost = await startBlockNode("lost");
  await using behind = await startBlockNode("behind", { best: 98 });
  await using under = startPool([lost.url, behind.url]);
  await under.pool.firstProbe;
  await lost.close();
  announce(under, 99);
  assert.deepEqual(await read(under, 8), Array(8).fill("unreachable"));
  await under.pool.probe();
  assert.deepEqual(under.exclusionReasons(), ["unreachable", undefined]);
  behind.best = behind.finalized = 99;
  assert.deepEqual(await read(under), Array(4).fill(quoted(99)));
});

test("a node that is lost while its finalized head is checked has not given an empty answer", async () => {
  await using lost = await startBlockNode("lost");
  await using behind = await startBlockNode("behind");
  await using under = startPool([lost.url, behind.url]);
  await under.pool.firstProbe;
  for (const node of [lost, behind]) {
    node.finalized = 99;
    node.stalls = (method) => {
      if (method === "chain_getHeader") for (const socket of node.open) socket.destroy();
      return method === "chain_getHeader";
    };
  }
  assert.equal(await under.outcome(finalizedHead), "unreachable");
  const series = [...under.values.keys()];
  assert.ok(!series.some((name) => name.includes("empty_answer")), series.join(" "));
});

test("an answer is not below a finalized head that was announced while it was made", async () => {
  await using ahead = await startBlockNode("ahead");
  await using behind = await startBlockNode("behind");
  await using under = startPool([ahead.url, behind.url]);
  await under.pool.firstProbe;
  ahead.stalls = (method, [number]) => method === "chain_getBlockHash" && number === 99;
  announce(under, 99);
  const call = under.send(finalizedHead);
  // The answers of the nodes to this call arrive before those to later calls.
  for (let i = 0; i < 4; i++) await under.outcome();
  assert.equal(call.endings, 0);
  announce(under, 100, hashOf(100));
  await until(() => {
    under.clock.advance(1_000);
    return call.endings > 0;
  });
  assert.deepEqual(await call.ending, { kind: "result", text: quoted(100) });
});

test("a finalized head that was read before the chain was known counts afterwards", async () => {
  await using ahead = await startBlockNode("ahead", { finalized: 99 });
  await using behind = await startBlockNode("behind");
  ahead.stalls = (method) => method === "system_health";
  await using under = startPool([ahead.url, behind.url]);
  const height = { method: "archive_v1_finalizedHeight", params: "[]" };
  assert.equal(await under.outcome(height), "99");
  const isProbed = (best: number) => (): boolean => under.pool.status()[1]?.best === best;
  await until(isProbed(100));
  // The pool no longer waits for the first node, and the second one determines the chain.
  under.clock.advance(2_000);
  assert.ok(under.pool.ready);
  behind.best = 101;
  under.clock.advance(PROBE_MS);
  await until(isProbed(101));
  assert.equal(under.pool.announcements?.finalizedFloor, 99);
});

test("a finalized head that its node no longer reports is withdrawn after a minute", async () => {
  await using wrong = await startBlockNode("wrong");
  await using right = await startBlockNode("right");
  await using under = startPool([wrong.url, right.url]);
  await under.pool.firstProbe;
  announce(under, 105, hashOf(105));
  await under.pool.probe();
  under.clock.advance(59_000);
  await under.pool.probe();
  assert.equal(under.pool.announcements?.finalizedFloor, 105);
  under.clock.advance(1000);
  await under.pool.probe();
  assert.equal(under.pool.announcements?.finalizedFloor, 98);
});

test("a finalized head far above the other nodes is withdrawn, although its node was the only one that was used", async () => {
  await using wrong = await startBlockNode("wrong", { best: 1_000_000, finalized: 999_990 });
  await using right = await startBlockNode("right");
  await using under = startPool([wrong.url, right.url]);
  await under.pool.firstProbe;
  assert.equal(under.pool.announcements?.finalizedFloor, 999_990);
  await wrong.close();
  await under.probes(() => under.exclusionReasons()[1] === undefined);
  await under.pool.probe();
  under.clock.advance(60_000);
  await under.pool.probe();
  assert.equal(under.pool.announcements?.finalizedFloor, 98);
});
