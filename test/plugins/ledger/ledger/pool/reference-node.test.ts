/** The reference node of the plugin `ledger`, from which the finalized head comes. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { ChainNode, headerOf } from "../feed/chain-node.ts";
import { hashOf, startBlockNode, type BlockNode } from "./block-node.ts";
import { startPool, until, type PoolUnderTest } from "./nodes.ts";

const finalizedHead = "chain_getFinalizedHead";
const finalizedHeight = "archive_v1_finalizedHeight";
const quoted = (number: number, fork = 0): string => `"${hashOf(number, fork)}"`;

async function read(under: PoolUnderTest, times = 4): Promise<readonly string[]> {
  const answers: string[] = [];
  for (let i = 0; i < times; i++) answers.push(await under.outcome(finalizedHead));
  return answers;
}

async function started(...nodes: readonly { readonly url: string }[]): Promise<PoolUnderTest> {
  const under = await startPool(nodes.map(({ url }) => url));
  await under.probed;
  return under;
}

async function reference(
  under: PoolUnderTest,
  nodes: readonly BlockNode[],
): Promise<BlockNode | undefined> {
  const asked = ({ received }: BlockNode): number =>
    received.filter(({ body }) => body.includes(finalizedHeight)).length;
  const before = nodes.map(asked);
  await under.outcomeInTime(finalizedHeight);
  return nodes.findLast((node, i) => asked(node) > before[i]!);
}

/** Lets time pass until every node has been probed that often. Each gets a block per probe. */
async function probeRounds(
  under: PoolUnderTest,
  nodes: readonly BlockNode[],
  rounds: number,
): Promise<void> {
  for (let round = 0; round < rounds; round++) {
    for (const node of nodes) node.best++;
    await under.probesShow(...nodes.map(({ best }) => best));
  }
}

/** Subscribes to heads. Resolves to what the client has received as soon as there is something. */
async function subscribe({ ledger }: PoolUnderTest, name: string): Promise<readonly string[]> {
  const { subscriptions } = ledger;
  const opened = await subscriptions.open(subscriptions.subscribing.get(name)!, "[]");
  assert.ok(opened.kind === "open");
  const received: string[] = [];
  opened.subscription.start({
    onNotification: (head) => void received.push(head),
    onEnd: () => void received.push("end"),
  });
  await until(() => received.length > 0);
  return received;
}

/** Subscribes to the finalized heads, and lets the reference announce one that it does not have. */
async function announceFrom(node: ChainNode, under: PoolUnderTest, number: number): Promise<void> {
  await subscribe(under, "chain_subscribeFinalizedHeads");
  node.notify("chain_subscribeFinalizedHeads", headerOf(number));
  await under.ledger.nodes[0]!.call("system_chain", "[]");
}

test("the finalized head comes from one node, and does not go back when this node is lost", async () => {
  await using ahead = await startBlockNode("ahead", { finalized: 99 });
  await using behind = await startBlockNode("behind", { finalized: 97 });
  await using under = await started(ahead, behind);
  assert.deepEqual(await read(under), Array(4).fill(quoted(99)));
  assert.equal(await under.outcome(finalizedHeight), "99");
  await ahead.close();
  // The other node has not finalized the block within two seconds.
  assert.equal(await under.outcomeInTime(finalizedHead), "unreachable");
  behind.finalized = 99;
  assert.equal(await under.outcomeInTime(finalizedHead), quoted(99));
  assert.equal(await reference(under, [behind]), behind);
});

test("the next reference must have the finalized block of the last one", async () => {
  await using lost = await startBlockNode("lost");
  await using fork = await startBlockNode("fork");
  await using same = await startBlockNode("same");
  fork.says = (method, [number]) => {
    const isAsked = method === "chain_getFinalizedHead" || number === 98;
    return isAsked ? quoted(98, 1) : undefined;
  };
  fork.best = 101;
  await using under = await started(lost, fork, same);
  assert.equal(await under.outcome(finalizedHead), quoted(98));
  await lost.close();
  assert.equal(await under.outcomeInTime(finalizedHead), quoted(98));
  assert.ok(under.lines.some(({ message }) => message === "node has finalized another chain"));
});

test("a reference that finalizes nothing is left after twenty seconds", async () => {
  await using behind = await startBlockNode("behind");
  await using ahead = await startBlockNode("ahead");
  await using under = await started(behind, ahead);
  const nodes = [behind, ahead];
  await probeRounds(under, nodes, 6);
  assert.equal(await reference(under, nodes), behind, "the other node has not finalized more");
  ahead.finalized = 99;
  await probeRounds(under, nodes, 4);
  assert.equal(await reference(under, nodes), behind);
  await probeRounds(under, nodes, 2);
  assert.equal(await reference(under, nodes), ahead);
});

test("a reference that is always a little behind is kept, and one that is far behind is not", async () => {
  await using behind = await startBlockNode("behind", { best: 1000 });
  await using ahead = await startBlockNode("ahead", { best: 1000 });
  await using under = await started(behind, ahead);
  const nodes = [behind, ahead];
  for (let round = 0; round < 8; round++) {
    ahead.finalized++;
    await probeRounds(under, nodes, 1);
    behind.finalized++;
  }
  assert.equal(await reference(under, nodes), behind);
  ahead.finalized += 70;
  for (let round = 0; round < 6; round++) {
    behind.finalized++;
    await probeRounds(under, nodes, 1);
  }
  assert.equal(await reference(under, nodes), ahead);
});

test("a finalized head far above the other nodes is not believed", async () => {
  await using liar = await startBlockNode("liar");
  await using honest = await startBlockNode("honest");
  await using under = await started(liar, honest);
  liar.says = (method, [hash]) => {
    if (method === "chain_getFinalizedHead") return quoted(1_000_000);
    return method === "chain_getHeader" && hash === hashOf(1_000_000)
      ? '{"number":"0xf4240"}'
      : undefined;
  };
  assert.deepEqual(await read(under), Array(4).fill(quoted(98)));
  assert.equal(await reference(under, [liar, honest]), honest);
});

test("a finalized head far above the other nodes is not believed in a subscription, either", async () => {
  await using liar = await ChainNode.start();
  await using honest = await ChainNode.start();
  await using under = await started(liar, honest);
  await announceFrom(liar, under, 117);
  assert.equal(await under.outcome(finalizedHeight), "100");
});

test("a node that invents a finalized head before the others are known is not believed", async () => {
  await using liar = await startBlockNode("liar", { finalized: 1_000_000 });
  await using honest = await startBlockNode("honest");
  liar.says = (method, [hash]) =>
    method === "chain_getHeader" && hash === hashOf(1_000_000) ? '{"number":"0xf4240"}' : undefined;
  honest.stalls = (method) => method === "system_health";
  await using under = await startPool([liar.url, honest.url]);
  await until(() => under.ready);
  honest.stalls = () => false;
  await under.probes(() => under.nodes()[1]?.best === 100);
  await under.probed;
  assert.deepEqual(under.exclusionReasons(), [undefined, undefined]);
  assert.deepEqual(await read(under), Array(4).fill(quoted(98)));
});

test("a node that does not have its own finalized head is not the reference", async () => {
  await using liar = await startBlockNode("liar");
  await using honest = await startBlockNode("honest");
  await using under = await started(liar, honest);
  liar.says = (method) => (method === "chain_getFinalizedHead" ? quoted(150) : undefined);
  assert.deepEqual(await read(under), Array(4).fill(quoted(98)));
});

test("a node that is lost while its finalized head is checked has not given an empty answer", async () => {
  await using lost = await startBlockNode("lost");
  await using behind = await startBlockNode("behind");
  await using under = await started(lost, behind);
  for (const node of [lost, behind]) {
    node.finalized = 99;
    node.stalls = (method) => {
      if (method === "chain_getHeader") for (const socket of node.open) socket.destroy();
      return method === "chain_getHeader";
    };
  }
  assert.equal(await under.outcomeInTime(finalizedHead), "unreachable");
  const failed = under.metrics.read("sluice_ledger_node_failures_total");
  assert.deepEqual(
    failed.filter(({ labels }) => labels["cause"] === "unusable"),
    [],
  );
});

test("a call that waits for a silent reference is answered by the next one", async () => {
  await using silent = await startBlockNode("silent");
  await using next = await startBlockNode("next");
  await using under = await startPool([silent.url, next.url], { headersMs: 3_600_000 });
  await under.probed;
  silent.stalls = () => true;
  next.finalized = 99;
  assert.equal(await under.outcomeInTime(finalizedHead), quoted(99));
  assert.deepEqual(under.exclusionReasons(), ["unreachable", undefined]);
});

test("the finalized head does not go back when a node changes its runtime", async () => {
  await using ahead = await startBlockNode("ahead", { finalized: 99 });
  await using behind = await startBlockNode("behind", { finalized: 97 });
  await using under = await startPool([ahead.url, behind.url], { cacheBytes: 10_000 });
  await under.probed;
  const constant = ["system_chain", "[]"] as const;
  assert.equal(await under.outcome(finalizedHead), quoted(99));
  await under.outcome(...constant);
  behind.says = (method) =>
    method === "state_getRuntimeVersion" ? '{"specName":"test","specVersion":2}' : undefined;
  ahead.stalls = (method) => method === "system_health";
  // The cache is emptied.
  await under.probes(() => under.call(...constant) instanceof Promise);
  assert.deepEqual(await read(under), Array(4).fill(quoted(99)));
});

test("a finalized head that was read before the chain was known counts afterwards", async () => {
  await using ahead = await startBlockNode("ahead", { finalized: 99 });
  await using behind = await startBlockNode("behind");
  ahead.stalls = (method) => method === "system_health";
  await using under = await startPool([ahead.url, behind.url]);
  assert.equal(await under.outcome(finalizedHeight), "99");
  // The pool no longer waits for the first node, and the second one determines the chain.
  await under.probes(() => under.ready);
  await ahead.close();
  assert.equal(await under.outcomeInTime(finalizedHead), "unreachable");
  behind.finalized = 99;
  assert.equal(await under.outcomeInTime(finalizedHead), quoted(99));
});

test("heads may be far above the other nodes, if the best node has reported them to its probes", async () => {
  await using ahead = await ChainNode.start();
  await using behind = await ChainNode.start();
  ahead.best = 10_000;
  await using under = await startPool([ahead.url, behind.url], { maxLag: 100_000 });
  await under.probed;
  assert.deepEqual(await subscribe(under, "chain_subscribeNewHeads"), [headerOf(10_000)]);
});

test("a finalized head that no node reports to its probes is withdrawn after a minute", async () => {
  await using wrong = await ChainNode.start();
  await using right = await ChainNode.start();
  await using under = await started(wrong, right);
  await announceFrom(wrong, under, 105);
  const start = under.clock.now();
  while ((await under.outcomeInTime(finalizedHeight)) !== "100");
  const passed = under.clock.now() - start;
  assert.ok(passed > 55_000 && passed < 70_000, String(passed));
});

test("a finalized head far above the other nodes is withdrawn, although its node was the only one that was used", async () => {
  await using wrong = await startBlockNode("wrong", { best: 1_000_000, finalized: 999_990 });
  await using right = await startBlockNode("right");
  await using under = await started(wrong, right);
  assert.equal(await under.outcome(finalizedHead), quoted(999_990));
  await wrong.close();
  assert.equal(await under.outcomeInTime(finalizedHead), "unreachable");
  while ((await under.outcomeInTime(finalizedHead)) !== quoted(98));
});

test("one node can be called alone, and its answer is not cached, shared or judged", async () => {
  await using a = await startBlockNode("a");
  await using b = await startBlockNode("b", { finalized: 97 });
  await using under = await started(a, b);
  const nodes = under.ledger.nodes;
  assert.deepEqual(
    nodes.map(({ name }) => name),
    [a, b].map(({ port }) => `127.0.0.1:${port}`),
  );
  const answers = await Promise.all(nodes.map((node) => node.call("chain_getFinalizedHead", "[]")));
  assert.deepEqual(
    answers.map((answer) => answer.kind === "result" && answer.bytes.toString()),
    [quoted(98), quoted(97)],
  );
  await b.close();
  assert.deepEqual((await nodes[1]!.call("chain_getHeader", "[]")).kind, "failed");
});
