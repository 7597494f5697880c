/** The blocks of a follow, and its operations at a node that is slow, full or lies. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { BlockTree, type Block } from "../../../../../plugins/ledger/ledger/follow/block-tree.ts";
import { until } from "../pool/nodes.ts";
import { startLedger } from "../start-ledger.ts";
import { hashAt, runtimeOf, FollowNode } from "./follow-node.ts";

const list = (hashes: readonly string[]): string => JSON.stringify(hashes);
const initialized = (...hashes: readonly string[]): string =>
  `{"event":"initialized","finalizedBlockHashes":${list(hashes)},"finalizedBlockRuntime":${runtimeOf(1)}}`;
const newBlock = (hash: string, parent: string, runtime = "null"): string =>
  `{"event":"newBlock","blockHash":"${hash}","parentBlockHash":"${parent}", "newRuntime":${runtime}}`;
const best = (hash: string): string => `{"event":"bestBlockChanged","bestBlockHash":"${hash}"}`;
const finalized = (hashes: readonly string[], pruned: readonly string[] = []): string =>
  `{"event":"finalized","finalizedBlockHashes":${list(hashes)},"prunedBlockHashes":${list(pruned)}}`;

/** A tree with block 100 finalized, 101 to 103 on it, and a fork of 102. */
function tree(): { readonly tree: BlockTree; readonly unused: string[] } {
  const unused: string[] = [];
  const made = new BlockTree(true, ({ hash }) => unused.push(hash));
  const events = [
    initialized(hashAt(99), hashAt(100)),
    newBlock(hashAt(101), hashAt(100)),
    newBlock(hashAt(102), hashAt(101), runtimeOf(2)),
    newBlock(hashAt(102, 1), hashAt(101)),
    newBlock(hashAt(103), hashAt(102)),
    best(hashAt(103)),
  ];
  for (const event of events) assert.notEqual(made.accept(event).kind, "invalid", event);
  return { tree: made, unused };
}

/** Accepts `finalized` as a follow without clients does. */
function settle(made: BlockTree, event: string): readonly Block[] {
  const change = made.accept(event);
  assert.equal(change.kind, "finalized");
  if (change.kind !== "finalized") return [];
  made.settle(change.pruned);
  return change.finalized;
}

test("after the finalization of a new runtime, a new client gets that runtime", () => {
  const { tree: made } = tree();
  settle(made, finalized([hashAt(101), hashAt(102)], [hashAt(102, 1)]));
  const { events } = made.replay();
  assert.equal(
    events[0],
    `{"event":"initialized","finalizedBlockHashes":${list([99, 100, 101, 102].map((n) => hashAt(n)))},"finalizedBlockRuntime":${runtimeOf(2)}}`,
  );
  assert.deepEqual(events.slice(1), [newBlock(hashAt(103), hashAt(102)), best(hashAt(103))]);
});

test("a best block that a new client cannot know is replaced by the finalized one", () => {
  const { tree: made } = tree();
  made.accept(best(hashAt(102, 1)));
  settle(made, finalized([hashAt(101), hashAt(102), hashAt(103)]));
  assert.equal(made.replay().events.at(-1), best(hashAt(103)));
});

test("events that break the guarantees of the specification are invalid", () => {
  const bad = [
    "null",
    "[]",
    '{"event":7',
    initialized(hashAt(1)),
    newBlock(hashAt(7), hashAt(6)),
    newBlock(hashAt(104), hashAt(99)),
    newBlock("0x1", hashAt(103)),
    `{"event":"newBlock","blockHash":"${hashAt(104)}"}`,
    best(hashAt(99)),
    best(hashAt(104)),
    finalized([]),
    finalized([hashAt(102)]),
    finalized([hashAt(101), hashAt(103)]),
    finalized([hashAt(101)], [hashAt(101)]),
    finalized([hashAt(101)], [hashAt(7)]),
    `{"event":"finalized","finalizedBlockHashes":["${hashAt(101)}"]}`,
    finalized(Array.from({ length: 5000 }, (_, n) => hashAt(101 + n))),
  ];
  for (const event of bad)
    assert.equal(tree().tree.accept(event).kind, "invalid", event.slice(0, 200));
  const early = new BlockTree(true, () => {});
  assert.equal(early.accept(best(hashAt(1))).kind, "invalid");
  assert.equal(early.accept(initialized()).kind, "invalid");
  assert.equal(early.accept(initialized(hashAt(1), hashAt(1))).kind, "invalid");
});

test("a repeated block and an unknown event are ignored", () => {
  const { tree: made } = tree();
  assert.equal(made.accept(newBlock(hashAt(103), hashAt(102))).kind, "ignored");
  assert.equal(made.accept('{"event":"somethingNew"}').kind, "ignored");
});

/** Time after which an operation without an event has failed. */
const answerMs = 1000;
/** A pruned block, which nothing but the client and its operations holds. */
const hash = hashAt(101, 1);

async function setUp(node: FollowNode) {
  node.isHolding = true;
  const limits = { headersMs: answerMs - 100, idleMs: 100, probeMs: 3_600_000 };
  const started = await startLedger([node.url], limits);
  await started.probed;
  const opened = await started.ledger.follows.open(true);
  assert.ok(opened.kind === "open");
  const follow = opened.subscription;
  let events = 0;
  follow.start({ onNotification: () => void events++, onEnd() {} });
  await until(() => events === 2);
  for (const block of [hashAt(101), hash]) node.add(block, hashAt(100));
  node.finalize([hashAt(101)], [hash]);
  await until(() => events === 7);
  const ends: string[] = [];
  const start = (parameters: string) =>
    follow.operate(
      { kind: "call", hash, function: "f", parameters },
      { isBehind: false, onResult() {}, onEnd: ({ kind }) => void ends.push(kind) },
    );
  return Object.assign(started, { follow, ends, start });
}

async function turns(): Promise<void> {
  for (let count = 0; count < 40; count++) await new Promise(setImmediate);
}

test("an operation that the node does not end in time is inaccessible, and is stopped at the node", async () => {
  await using node = await FollowNode.start();
  await using ledger = await setUp(node);
  ledger.start("0x01");
  await until(() => node.count("call") === 1);
  await turns();
  // The node has started, so the block may be unpinned.
  assert.ok(ledger.follow.unpin([hash]));
  await until(() => node.count("unpin") === 1);
  ledger.clock.advance(answerMs - 1);
  assert.deepEqual(ledger.ends, []);
  ledger.clock.advance(1);
  assert.deepEqual(ledger.ends, ["inaccessible"]);
  await until(() => node.count("stopOperation") === 1);
});

test("an operation that the node never accepts is sent again until its time is over", async () => {
  await using node = await FollowNode.start();
  node.maxOperations = 0;
  await using ledger = await setUp(node);
  ledger.start("0x01");
  assert.ok(ledger.follow.unpin([hash]));
  for (let attempts = 1; attempts <= 5; attempts++) {
    await turns();
    assert.equal(node.count("call"), attempts);
    ledger.clock.advance(200);
  }
  await turns();
  ledger.clock.advance(answerMs);
  assert.deepEqual(ledger.ends, ["inaccessible"]);
  await until(() => node.count("unpin") === 1);
  assert.equal(node.count("call"), 5);
});

test("sixteen operations run at the node, 1024 wait, and further ones are refused", async () => {
  await using node = await FollowNode.start();
  await using ledger = await setUp(node);
  for (let n = 0; n < 16 + 1024; n++) assert.ok(ledger.start(`0x${n}`));
  assert.equal(ledger.start("0xff"), undefined);
  await until(() => node.count("call") === 16);
  await turns();
  assert.equal(node.count("call"), 16);
  const [{ operations } = assert.fail()] = node.follows;
  const [id = ""] = operations.keys();
  operations.delete(id);
  node.notifyAll(`{"event":"operationCallDone","operationId":"${id}","output":"0x"}`);
  await until(() => node.count("call") === 17);
  node.cut();
  await until(() => ledger.ends.length === 16 + 1024);
  assert.equal(ledger.ends.filter((end) => end === "inaccessible").length, 16 + 1024 - 1);
});

test("answers and events of a node that lies end the operation, and nothing else", async () => {
  await using node = await FollowNode.start();
  await using ledger = await setUp(node);
  for (const lie of ['{"code":-32801,"message":"not pinned"}', '{"code":1}']) {
    node.refusal = lie;
    const { length } = ledger.ends;
    ledger.start(`0x0${length}`);
    await until(() => ledger.ends.length > length);
  }
  assert.deepEqual(ledger.ends, ["inaccessible", "error"]);
  node.refusal = undefined;
  ledger.start("0x05");
  await until(() => node.count("call") === 3);
  for (const id of ["", ',"operationId":7', ',"operationId":"b"']) {
    node.notifyAll(`{"event":"operationCallDone"${id}}`);
  }
  await turns();
  assert.equal(ledger.ends.length, 2);
  const [id] = [...node.follows].flatMap(({ operations }) => [...operations.keys()]);
  node.notifyAll(`{"event":"operationBodyDone","operationId":"${id}","value":[]}`);
  await until(() => ledger.ends.length > 2);
  assert.deepEqual(ledger.ends.slice(2), ["inaccessible"]);
  ledger.start("0x06");
  await until(() => node.count("call") === 4);
});
