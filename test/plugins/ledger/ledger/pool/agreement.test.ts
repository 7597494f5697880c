import assert from "node:assert/strict";
import { test } from "node:test";
import type { NodeRequest } from "../../../../../plugins/ledger/ledger/node-pool.ts";
import { hashOf, startBlockNode, type BlockNode } from "./block-node.ts";
import { PROBE_MS, startPool, until, type PoolUnderTest } from "./nodes.ts";

/** A read of the state at a block. */
const readAt = (hash: string): Partial<NodeRequest> => ({
  method: "state_getStorage",
  params: `["0x01","${hash}"]`,
  block: { hash, number: undefined, needsState: true },
});
const header = (hash: string): Partial<NodeRequest> => ({
  method: "chain_getHeader",
  params: `["${hash}"]`,
  block: { hash, number: undefined, needsState: false },
});
const blockHash = (number: number): Partial<NodeRequest> => ({
  method: "chain_getBlockHash",
  params: `[${number}]`,
  block: { hash: undefined, number, needsState: false },
});
const finalizedHead = { method: "chain_getFinalizedHead", params: "[]" };
const quoted = (hash: string): string => `"${hash}"`;

/** Starts a pool, and waits until it knows the nodes and the depth of their state. */
async function startKnownPool(
  nodes: readonly BlockNode[],
  over: Parameters<typeof startPool>[1] = {},
): Promise<PoolUnderTest> {
  const under = startPool(
    nodes.map(({ url }) => url),
    over,
  );
  await under.pool.firstProbe;
  await until(() => under.pool.status().every(({ oldestState }) => oldestState !== undefined));
  return under;
}

async function outcomes(
  under: PoolUnderTest,
  count: number,
  request: Partial<NodeRequest>,
): Promise<readonly string[]> {
  const all: string[] = [];
  for (let i = 0; i < count; i++) all.push(await under.outcome(request));
  return all;
}

const sum = (values: ReadonlyMap<string, number>, name: string): number => {
  let total = 0;
  for (const [series, value] of values) if (series.startsWith(name)) total += value;
  return total;
};

test("a read at a new block goes to the node that reported the block", async () => {
  await using ahead = await startBlockNode("ahead", { best: 101 });
  await using behind = await startBlockNode("behind", { best: 100 });
  await using under = await startKnownPool([ahead, behind]);
  assert.deepEqual(await outcomes(under, 4, readAt(hashOf(101))), Array(4).fill('"ahead"'));
  assert.equal(behind.reads.length, 0);
});

test("a node reports a block by answering with its hash", async () => {
  await using a = await startBlockNode("a");
  await using b = await startBlockNode("b");
  await using under = await startKnownPool([a, b]);
  a.best = b.best = 101;
  // Neither node was probed since then. The one that answers is the only one that is known to have the block.
  await under.outcome(blockHash(101));
  const answers = await outcomes(under, 4, readAt(hashOf(101)));
  assert.equal(new Set(answers).size, 1);
});

test("a read of a block that every node has finalized goes to all nodes", async () => {
  await using a = await startBlockNode("a");
  await using b = await startBlockNode("b");
  await using under = await startKnownPool([a, b]);
  const answers = await outcomes(under, 4, readAt(hashOf(98)));
  assert.deepEqual(answers.toSorted(), ['"a"', '"a"', '"b"', '"b"']);
});

test("after half a minute a block counts as known to all nodes", async () => {
  await using a = await startBlockNode("a", { best: 101 });
  await using b = await startBlockNode("b", { best: 100 });
  await using under = await startKnownPool([a, b]);
  b.best = 101;
  under.clock.advance(31_000);
  await under.pool.probe();
  const answers = await outcomes(under, 4, readAt(hashOf(101)));
  assert.deepEqual(new Set(answers), new Set(['"a"', '"b"']));
});

test("an empty answer for a block that the node has reported counts against the node", async () => {
  await using liar = await startBlockNode("liar");
  await using honest = await startBlockNode("honest");
  await using under = await startKnownPool([liar, honest]);
  let lies = 0;
  liar.says = (method) => {
    if (method !== "chain_getHeader") return undefined;
    lies++;
    return "null";
  };
  const answers = await outcomes(under, 4, header(hashOf(100)));
  assert.deepEqual(answers, Array(4).fill('{"number":"0x64"}'));
  const failures = [...under.values].filter(
    ([series]) =>
      series.startsWith("sluice_ledger_node_failures_total") && series.includes('cause="unusable"'),
  );
  assert.ok(lies > 0);
  assert.deepEqual(
    failures.map(([, count]) => count),
    [lies],
  );
});

test("a node that keeps giving empty answers is ejected", async () => {
  await using liar = await startBlockNode("liar");
  await using honest = await startBlockNode("honest");
  await using under = await startKnownPool([liar, honest]);
  liar.says = (method, params) =>
    method === "chain_getBlockHash" && params[0] === 50 ? "null" : undefined;
  assert.deepEqual(await outcomes(under, 12, blockHash(50)), Array(12).fill(quoted(hashOf(50))));
  assert.deepEqual(under.exclusionReasons(), ["tripped", undefined]);
});

test("a block that only one node has is found, and the other node is not to blame", async () => {
  await using a = await startBlockNode("a");
  await using b = await startBlockNode("b");
  await using under = await startKnownPool([a, b]);
  a.best = 105;
  assert.deepEqual(
    await outcomes(under, 4, header(hashOf(105))),
    Array(4).fill('{"number":"0x69"}'),
  );
  assert.deepEqual(under.exclusionReasons(), [undefined, undefined]);
  assert.equal(sum(under.values, "sluice_ledger_node_failures_total"), 0);
});

test("a block that no node has is null", async () => {
  await using a = await startBlockNode("a");
  await using b = await startBlockNode("b");
  await using under = await startKnownPool([a, b]);
  assert.equal(await under.outcome(header(hashOf(500))), "null");
  assert.equal(await under.outcome(blockHash(500)), "null");
  assert.equal(sum(under.values, "sluice_ledger_node_failures_total"), 0);
});

test("the state of old blocks is read from nodes that have it", async () => {
  await using pruned = await startBlockNode("pruned", {
    best: 1000,
    finalized: 998,
    oldestState: 744,
  });
  await using archive = await startBlockNode("archive", { best: 1000, finalized: 998 });
  await using under = await startKnownPool([pruned, archive]);
  assert.deepEqual(
    under.pool.status().map(({ oldestState }) => oldestState),
    [744, 0],
  );
  // The answer with the hash tells the pool the number of the block.
  await under.outcome(blockHash(500));
  assert.deepEqual(await outcomes(under, 4, readAt(hashOf(500))), Array(4).fill('"archive"'));
  assert.deepEqual(pruned.reads, []);
  await under.outcome(blockHash(800));
  const recent = await outcomes(under, 4, readAt(hashOf(800)));
  assert.deepEqual(recent.toSorted(), ['"archive"', '"archive"', '"pruned"', '"pruned"']);
});

test("a block whose state a node has discarded is remembered", async () => {
  await using pruned = await startBlockNode("pruned", {
    best: 1000,
    finalized: 998,
    oldestState: 744,
  });
  await using archive = await startBlockNode("archive", { best: 1000, finalized: 998 });
  await using under = await startKnownPool([pruned, archive]);
  assert.deepEqual(await outcomes(under, 6, readAt(hashOf(300))), Array(6).fill('"archive"'));
  assert.equal(pruned.reads.length, 1);
});

test("archive_v1_call goes to nodes that have the block, and a failure for lack of it is not passed on", async () => {
  await using pruned = await startBlockNode("pruned", {
    best: 1000,
    finalized: 998,
    oldestState: 744,
  });
  await using archive = await startBlockNode("archive", { best: 1000, finalized: 998 });
  const calls: string[] = [];
  for (const [node, error] of [
    [pruned, "UnknownBlock: State already discarded for 0x01"],
    [archive, undefined],
  ] as const) {
    node.says = (method, params) => {
      if (method === "archive_v1_hashByHeight") return `["${hashOf(Number(params[0]))}"]`;
      if (method !== "archive_v1_call") return undefined;
      calls.push(error === undefined ? "archive" : "pruned");
      return JSON.stringify(error ? { success: false, error } : { success: true, value: "0x01" });
    };
  }
  await using under = await startKnownPool([pruned, archive]);
  const call = (number: number, needsState = true): Partial<NodeRequest> => ({
    method: "archive_v1_call",
    params: `["${hashOf(number)}","Core_version","0x"]`,
    block: { hash: hashOf(number), number: undefined, needsState },
  });
  const right = '{"success":true,"value":"0x01"}';
  assert.deepEqual(await outcomes(under, 4, call(300)), Array(4).fill(right));
  assert.equal(calls.filter((name) => name === "pruned").length, 1, "the pool has learned it");
  calls.length = 0;
  // The answer with the hash tells the pool the number of the block.
  const byHeight = {
    method: "archive_v1_hashByHeight",
    params: "[500]",
    block: { hash: undefined, number: 500, needsState: false },
  };
  await under.outcome(byHeight);
  assert.deepEqual(await outcomes(under, 4, call(500)), Array(4).fill(right));
  assert.deepEqual(calls, Array(4).fill("archive"));
  // A failure of the call itself is an answer.
  const failed = '{"success":false,"error":"Execution failed: no such function"}';
  archive.says = (method) => (method === "archive_v1_call" ? failed : undefined);
  assert.equal(await under.outcome(call(500)), failed);
  // `null` says that the node does not know the block.
  archive.says = (method) => (method === "archive_v1_call" ? "null" : undefined);
  pruned.says = (method) => (method === "archive_v1_call" ? right : undefined);
  assert.equal(await under.outcome(call(500)), right);
});

test("a node that does not answer while its depth is measured is used as before", async () => {
  await using silent = await startBlockNode("silent");
  await using other = await startBlockNode("other");
  silent.says = (method) => (method === "state_getStorage" ? '"silent"' : undefined);
  silent.stalls = (_method, params) => params[0] === 1;
  await using under = startPool([silent.url, other.url]);
  await under.pool.firstProbe;
  await until(() => under.pool.status()[1]?.oldestState === 0);
  assert.equal(under.pool.status()[0]?.oldestState, undefined);
  const answers = await outcomes(under, 4, readAt(hashOf(10)));
  assert.deepEqual(new Set(answers), new Set(['"silent"', '"other"']));
});

test("the finalized head does not go back when another node answers", async () => {
  await using ahead = await startBlockNode("ahead", { finalized: 99 });
  await using behind = await startBlockNode("behind", { finalized: 97 });
  await using under = await startKnownPool([ahead, behind]);
  assert.deepEqual(await outcomes(under, 4, finalizedHead), Array(4).fill(quoted(hashOf(99))));
  const height = { method: "archive_v1_finalizedHeight", params: "[]" };
  assert.deepEqual(await outcomes(under, 4, height), Array(4).fill("99"));
});

test("the finalized head does not go back when a node changes its runtime", async () => {
  await using ahead = await startBlockNode("ahead", { finalized: 99 });
  await using behind = await startBlockNode("behind", { finalized: 97 });
  await using under = await startKnownPool([ahead, behind]);
  assert.equal(await under.outcome(finalizedHead), quoted(hashOf(99)));
  const { epoch } = under.pool;
  behind.says = (method) =>
    method === "state_getRuntimeVersion" ? '{"specName":"test","specVersion":2}' : undefined;
  // The pool hears of the change before it has probed the other node again.
  ahead.stalls = (method) => method === "system_health";
  void under.pool.probe();
  await until(() => under.pool.epoch > epoch);
  assert.deepEqual(await outcomes(under, 4, finalizedHead), Array(4).fill(quoted(hashOf(99))));
});

test("a node that invents a finalized head before the others are known is not believed", async () => {
  await using liar = await startBlockNode("liar", { finalized: 1_000_000 });
  await using honest = await startBlockNode("honest");
  liar.says = (method, params) =>
    method === "chain_getHeader" && params[0] === hashOf(1_000_000)
      ? '{"number":"0xf4240"}'
      : undefined;
  honest.stalls = (method) => method === "system_health";
  await using under = startPool([liar.url, honest.url]);
  await until(() => under.pool.ready);
  honest.stalls = () => false;
  under.clock.advance(PROBE_MS);
  await under.pool.firstProbe;
  await under.pool.probe();
  assert.deepEqual(under.exclusionReasons(), [undefined, undefined]);
  const last = (await outcomes(under, 4, finalizedHead)).slice(-2);
  assert.deepEqual(last, Array(2).fill(quoted(hashOf(98))));
});

test("a finalized head that no probe has seen is believed with its header", async () => {
  await using a = await startBlockNode("a");
  await using b = await startBlockNode("b");
  await using under = await startKnownPool([a, b]);
  a.best = 102;
  a.finalized = 101;
  const answers = await outcomes(under, 4, finalizedHead);
  const first = answers.indexOf(quoted(hashOf(101)));
  assert.ok(first === 0 || first === 1);
  assert.deepEqual(answers.slice(first), Array(4 - first).fill(quoted(hashOf(101))));
});

test("a node that invents a finalized head far above the others is not believed", async () => {
  await using liar = await startBlockNode("liar");
  await using honest = await startBlockNode("honest");
  await using under = await startKnownPool([liar, honest]);
  liar.says = (method, params) => {
    if (method === "chain_getFinalizedHead") return quoted(hashOf(1_000_000));
    return method === "chain_getHeader" && params[0] === hashOf(1_000_000)
      ? '{"number":"0xf4240"}'
      : undefined;
  };
  assert.deepEqual(await outcomes(under, 4, finalizedHead), Array(4).fill(quoted(hashOf(98))));
});

test("a node that does not know its own finalized head is asked no further", async () => {
  await using liar = await startBlockNode("liar");
  await using honest = await startBlockNode("honest");
  await using under = await startKnownPool([liar, honest]);
  liar.says = (method) => (method === "chain_getFinalizedHead" ? quoted(hashOf(150)) : undefined);
  assert.deepEqual(await outcomes(under, 4, finalizedHead), Array(4).fill(quoted(hashOf(98))));
});

test("the finalized head is not below the one that a subscription has announced", async () => {
  await using ahead = await startBlockNode("ahead");
  await using behind = await startBlockNode("behind");
  await using under = await startKnownPool([ahead, behind]);
  const [first] = under.pool.status();
  under.pool.announcements?.announcedFinalized(first!.node, 99);
  assert.deepEqual(await outcomes(under, 4, finalizedHead), Array(4).fill(quoted(hashOf(99))));
  const height = { method: "archive_v1_finalizedHeight", params: "[]" };
  assert.deepEqual(await outcomes(under, 4, height), Array(4).fill("99"));
});

test("an announced finalized head that the node does not have, or far above the others, is not used", async () => {
  await using liar = await startBlockNode("liar");
  await using honest = await startBlockNode("honest");
  await using under = await startKnownPool([liar, honest]);
  const [first] = under.pool.status();
  under.pool.announcements?.announcedFinalized(first!.node, 117);
  assert.equal(under.pool.announcements?.finalizedFloor, 98);
  under.pool.announcements?.announcedFinalized(first!.node, 116);
  assert.equal(under.pool.announcements?.finalizedFloor, 116);
  assert.deepEqual(await outcomes(under, 4, finalizedHead), Array(4).fill(quoted(hashOf(98))));
});

test("the finalized block of a follow counts, and its number is that of its node", async () => {
  await using ahead = await startBlockNode("ahead");
  await using behind = await startBlockNode("behind");
  await using under = await startKnownPool([ahead, behind]);
  const [, second] = under.pool.status();
  const announcements = under.pool.announcements!;
  assert.equal(await announcements.numberOf(second!.node, hashOf(150)), undefined);
  assert.equal(await announcements.numberOf(second!.node, hashOf(99)), 99);
  announcements.announcedFinalized(second!.node, 99, hashOf(99));
  assert.deepEqual(await outcomes(under, 4, finalizedHead), Array(4).fill(quoted(hashOf(99))));
});

test("subscriptions go to a node that has finalized what the pool has answered", async () => {
  await using behind = await startBlockNode("behind", { best: 101, finalized: 97 });
  await using ahead = await startBlockNode("ahead", { best: 100, finalized: 98 });
  await using under = await startKnownPool([behind, ahead]);
  const [, second] = under.pool.status();
  assert.equal(under.pool.targets?.()[0]?.label, second!.node);
});

test("a read at a block that a node has announced goes to that node", async () => {
  await using ahead = await startBlockNode("ahead");
  await using behind = await startBlockNode("behind");
  await using under = await startKnownPool([behind, ahead]);
  ahead.best = 101;
  const [, second] = under.pool.status();
  under.pool.announcements?.announcedBlocks(second!.node, [hashOf(101)]);
  assert.deepEqual(await outcomes(under, 4, readAt(hashOf(101))), Array(4).fill('"ahead"'));
  assert.equal(behind.reads.length, 0);
});

test("a node is not to blame if it has deleted a block that it reported half a minute ago", async () => {
  await using a = await startBlockNode("a");
  await using b = await startBlockNode("b");
  await using under = await startKnownPool([a, b]);
  const [first] = under.pool.status();
  under.pool.announcements?.announcedBlocks(first!.node, [hashOf(101)]);
  under.clock.advance(31_000);
  assert.deepEqual(await outcomes(under, 4, header(hashOf(101))), Array(4).fill("null"));
  assert.equal(sum(under.values, "sluice_ledger_node_failures_total"), 0);
});

test("a node is not to blame if it has deleted a block that was pruned", async () => {
  await using a = await startBlockNode("a");
  await using b = await startBlockNode("b");
  await using under = await startKnownPool([a, b]);
  const [first] = under.pool.status();
  under.pool.announcements?.announcedBlocks(first!.node, [hashOf(101)]);
  under.pool.announcements?.announcedPruned([hashOf(101)]);
  assert.deepEqual(await outcomes(under, 4, header(hashOf(101))), Array(4).fill("null"));
  assert.equal(sum(under.values, "sluice_ledger_node_failures_total"), 0);
});

/** Answers enough calls for the pool to know the response times of the method. */
async function learnTimes(under: PoolUnderTest): Promise<void> {
  for (let i = 0; i < 64; i++) await under.outcome({ method: "slow_method" });
}
const slow = { method: "slow_method" };

test("a slow read is sent to a second node, whose answer is used", async () => {
  await using a = await startBlockNode("a");
  await using b = await startBlockNode("b");
  await using under = await startKnownPool([a, b], { hedging: true });
  await learnTimes(under);
  a.stalls = (method) => method === "slow_method";
  const hedged = [under.send(slow), under.send(slow)];
  await until(
    () => under.pool.status()[0]?.inFlight === 1 && hedged.some(({ endings }) => endings === 1),
  );
  under.clock.advance(1_000);
  for (const { ending } of hedged) assert.deepEqual(await ending, { kind: "result", text: '"b"' });
  assert.equal(under.values.get('sluice_ledger_hedges_total{upstream="ledger",outcome="won"}'), 1);
});

test("a call that must not be sent twice is not hedged", async () => {
  await using a = await startBlockNode("a");
  await using b = await startBlockNode("b");
  await using under = await startKnownPool([a, b], { hedging: true });
  await learnTimes(under);
  a.stalls = b.stalls = (method) => method === "slow_method";
  const before = a.received.length + b.received.length;
  const write = under.send({ ...slow, retry: false });
  await until(() => a.received.length + b.received.length === before + 1);
  for (let seconds = 0; seconds < 5; seconds++) under.clock.advance(1_000);
  assert.equal((await write.ending).kind, "failed");
  assert.equal(sum(under.values, "sluice_ledger_hedges_total"), 0);
});

test("hedges add at most one call in twenty", async () => {
  await using a = await startBlockNode("a");
  await using b = await startBlockNode("b");
  await using under = await startKnownPool([a, b], { hedging: true, connections: 64 });
  await learnTimes(under);
  const received = (): number => a.received.length + b.received.length;
  a.stalls = b.stalls = (method) => method === "slow_method";
  const before = received();
  const calls = Array.from({ length: 40 }, () => under.send(slow));
  under.clock.advance(1_000);
  // 64 calls and these 40 have earned 5.2 hedges.
  await until(() => received() >= before + 45);
  for (let checks = 0; checks < 20; checks++) under.clock.advance(10);
  await until(() => under.pool.status().every(({ inFlight }) => inFlight > 0));
  assert.equal(received(), before + 45);
  const closed = under.pool.close();
  for (const { ending } of calls) assert.equal((await ending).kind, "failed");
  await closed;
});

const twoAgree = { ...readAt(hashOf(98)), quorum: 2 };

test("with a quorum, two nodes must give the same answer, and a third one decides", async () => {
  await using a = await startBlockNode("same");
  await using liar = await startBlockNode("lie");
  await using b = await startBlockNode("same");
  await using under = await startKnownPool([a, liar, b]);
  assert.deepEqual(await outcomes(under, 6, twoAgree), Array(6).fill('"same"'));
  assert.ok(sum(under.values, "sluice_ledger_disagreements_total") > 0);
});

test("with a quorum, two nodes that disagree are asked once more, and then the call fails", async () => {
  await using a = await startBlockNode("one");
  await using b = await startBlockNode("other");
  await using under = await startKnownPool([a, b]);
  assert.equal(await under.outcome(twoAgree), "disagreement");
  assert.deepEqual([a.reads.length, b.reads.length], [2, 2]);
  let reads = 0;
  b.says = (method, params) =>
    method === "state_getStorage" && params[0] === "0x01" && reads++ > 0 ? '"one"' : undefined;
  assert.equal(await under.outcome(twoAgree), '"one"');
});

test("with a quorum, a single usable node is not enough", async () => {
  await using a = await startBlockNode("same");
  await using b = await startBlockNode("same");
  await using under = await startKnownPool([a, b]);
  await b.close();
  assert.equal(await under.outcome(twoAgree), "unreachable");
});

test("with a quorum, equal errors of two nodes are an answer", async () => {
  await using a = await startBlockNode("same");
  await using b = await startBlockNode("same");
  await using under = await startKnownPool([a, b]);
  const unknown = { code: 4003, message: "Client error: UnknownBlock: Header was not found" };
  assert.equal(await under.outcome({ ...readAt(hashOf(500)), quorum: 2 }), JSON.stringify(unknown));
});
