/** Which nodes the plugin `ledger` asks for a block, for a second opinion, and after a slow answer. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { hashOf, startBlockNode, type BlockNode } from "./block-node.ts";
import { startPool, until, type PoolUnderTest } from "./nodes.ts";

type Call = readonly [method: string, params: string];

const readAt = (hash: string): Call => ["state_getStorage", `["0x01","${hash}"]`];
const header = (hash: string): Call => ["chain_getHeader", `["${hash}"]`];
const blockHash = (number: number): Call => ["chain_getBlockHash", `[${number}]`];
const quoted = (hash: string): string => `"${hash}"`;

/** Starts a pool, and waits until it knows the nodes and the depth of their state. */
async function startKnownPool(
  nodes: readonly BlockNode[],
  over: Parameters<typeof startPool>[1] = {},
): Promise<PoolUnderTest> {
  const under = await startPool(
    nodes.map(({ url }) => url),
    over,
  );
  await under.probed;
  await until(() => under.nodes().every(({ oldest_state: oldest }) => oldest !== undefined));
  return under;
}

async function outcomes(
  under: PoolUnderTest,
  count: number,
  call: Call,
): Promise<readonly string[]> {
  const all: string[] = [];
  for (let i = 0; i < count; i++) all.push(await under.outcome(...call));
  return all;
}

test("a read at a block that a node lacks is answered by the reference node", async () => {
  await using ahead = await startBlockNode("ahead");
  await using behind = await startBlockNode("behind");
  await using lost = await startBlockNode("lost");
  await using far = await startBlockNode("far");
  await using under = await startKnownPool([ahead, behind, lost, far]);
  ahead.best = 101;
  assert.deepEqual(await outcomes(under, 8, readAt(hashOf(101))), Array(8).fill('"ahead"'));
  assert.deepEqual(
    await outcomes(under, 8, header(hashOf(101))),
    Array(8).fill('{"number":"0x65"}'),
  );
  assert.deepEqual(under.metrics.read("sluice_ledger_node_failures_total"), []);
});

test("a read of a block that every node has finalized goes to all nodes", async () => {
  await using a = await startBlockNode("a");
  await using b = await startBlockNode("b");
  await using under = await startKnownPool([a, b]);
  const answers = await outcomes(under, 4, readAt(hashOf(98)));
  assert.deepEqual(answers.toSorted(), ['"a"', '"a"', '"b"', '"b"']);
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
  assert.deepEqual(under.metrics.read("sluice_ledger_node_failures_total"), []);
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
    under.nodes().map(({ oldest_state: oldest }) => oldest),
    [744, 0],
  );
  // The answer with the hash tells the pool the number of the block.
  await under.outcome(...blockHash(500));
  assert.deepEqual(await outcomes(under, 4, readAt(hashOf(500))), Array(4).fill('"archive"'));
  assert.deepEqual(pruned.reads, []);
  await under.outcome(...blockHash(800));
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
  const call = (number: number): Call => [
    "archive_v1_call",
    `["${hashOf(number)}","Core_version","0x"]`,
  ];
  const right = '{"success":true,"value":"0x01"}';
  assert.deepEqual(await outcomes(under, 4, call(300)), Array(4).fill(right));
  assert.equal(calls.filter((name) => name === "pruned").length, 1, "the pool has learned it");
  calls.length = 0;
  await under.outcome("archive_v1_hashByHeight", "[500]");
  assert.deepEqual(await outcomes(under, 4, call(500)), Array(4).fill(right));
  assert.deepEqual(calls, Array(4).fill("archive"));
  // A failure of the call itself is an answer.
  const failed = '{"success":false,"error":"Execution failed: no such function"}';
  archive.says = (method) => (method === "archive_v1_call" ? failed : undefined);
  assert.equal(await under.outcome(...call(500)), failed);
  // `null` says that the node does not know the block.
  archive.says = (method) => (method === "archive_v1_call" ? "null" : undefined);
  pruned.says = (method) => (method === "archive_v1_call" ? right : undefined);
  assert.equal(await under.outcome(...call(500)), right);
});

/** Answers enough calls for the pool to know the response times of the method. */
async function learnTimes(under: PoolUnderTest, method = slow): Promise<void> {
  for (let i = 0; i < 64; i++) await under.outcome(method);
}
const slow = "grandpa_roundState";

test("a slow read is sent to a second node, whose answer is used", async () => {
  await using a = await startBlockNode("a");
  await using b = await startBlockNode("b");
  await using under = await startKnownPool([a, b], { hedging: true });
  await learnTimes(under);
  a.stalls = (method) => method === slow;
  const before = a.received.length;
  const hedged = [under.outcome(slow), under.outcome(slow)];
  await Promise.race(hedged);
  await until(() => a.received.length === before + 1);
  under.clock.advance(1_000);
  assert.deepEqual(await Promise.all(hedged), ['"b"', '"b"']);
  assert.equal(under.value('sluice_ledger_hedges_total{upstream="ledger",outcome="won"}'), 1);
});

test("a call that must not be sent twice is not hedged", async () => {
  await using a = await startBlockNode("a");
  await using b = await startBlockNode("b");
  await using under = await startKnownPool([a, b], { hedging: true });
  const submit = "author_submitExtrinsic";
  await learnTimes(under, submit);
  a.stalls = b.stalls = (method) => method === submit;
  const sent = (): number =>
    [a, b].flatMap(({ received }) => received).filter(({ body }) => body.includes(submit)).length;
  const before = sent();
  const write = under.outcome(submit);
  await until(() => sent() === before + 1);
  for (let seconds = 0; seconds < 5; seconds++) {
    under.clock.advance(1_000);
    await Promise.all(under.ledger.nodes.map((node) => node.call("system_chain", "[]")));
  }
  assert.equal(await write, "timeout");
  assert.equal(sent(), before + 1);
});

test("hedges add at most one call in twenty", async () => {
  await using a = await startBlockNode("a");
  await using b = await startBlockNode("b");
  await using under = await startKnownPool([a, b], { hedging: true, connections: 64 });
  await learnTimes(under);
  const received = (): number => a.received.length + b.received.length;
  a.stalls = b.stalls = (method) => method === slow;
  const before = received();
  const calls = Array.from({ length: 40 }, () => under.outcome(slow));
  under.clock.advance(1_000);
  // 64 calls and these 40 have earned 5.2 hedges.
  await until(() => received() >= before + 45);
  for (let checks = 0; checks < 20; checks++) under.clock.advance(10);
  // Their answers come after any further hedge was sent.
  await Promise.all(under.ledger.nodes.map((node) => node.call("system_chain", "[]")));
  assert.equal(received(), before + 45 + 2);
  await under.close();
  assert.deepEqual(new Set(await Promise.all(calls)), new Set(["unreachable"]));
});

const twoAgree = { methods: { state_getStorage: { quorum: 2 } } };

test("with a quorum, a single usable node is not enough", async () => {
  await using a = await startBlockNode("same");
  await using b = await startBlockNode("same");
  await using under = await startKnownPool([a, b], twoAgree);
  await b.close();
  assert.equal(await under.outcome(...readAt(hashOf(98))), "unreachable");
});

test("with a quorum, equal errors of two nodes are an answer", async () => {
  await using a = await startBlockNode("same");
  await using b = await startBlockNode("same");
  await using under = await startKnownPool([a, b], twoAgree);
  const unknown = { code: 4003, message: "Client error: UnknownBlock: Header was not found" };
  assert.equal(await under.outcome(...readAt(hashOf(500))), JSON.stringify(unknown));
});
