import assert from "node:assert/strict";
import { test } from "node:test";
import { BlockTree, type Block } from "../../../../../plugins/ledger/ledger/follow/block-tree.ts";
import { hashAt, runtimeOf } from "./follow-node.ts";

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
