import assert from "node:assert/strict";
import { test } from "node:test";
import { SharedFollow } from "../../../../../plugins/ledger/ledger/follow/shared-follow.ts";
import type { Announcements } from "../../../../../plugins/ledger/ledger/node-pool.ts";
import { manualClock } from "../../../../../src/testing/clock.ts";
import { hashAt } from "./follow-node.ts";

function setUp(announcements?: Announcements) {
  const broken: string[] = [];
  const clock = manualClock();
  const follow = new SharedFollow('"f"', false, {
    clock,
    answerMs: 1000,
    cache: undefined,
    sharing: true,
    send() {},
    onBroken: (reason) => void broken.push(reason),
    onUnused() {},
    onFinalized() {},
    onChange() {},
    announcements,
    node: "node",
  });
  /** Adds a client, and returns what it hears. */
  const join = (floor?: number): string[] => {
    const heard: string[] = [];
    follow.join(floor).start({
      onNotification: (event) => void heard.push(event),
      onEnd: () => void heard.push("end"),
    });
    return heard;
  };
  return { follow, broken, join, clock };
}

const initialized = (hash: string): string =>
  `{"event":"initialized","finalizedBlockHashes":["${hash}"]}`;
const newBlock = (hash: string, parent: string): string =>
  `{"event":"newBlock","blockHash":"${hash}","parentBlockHash":"${parent}"}`;
const best = (hash: string): string => `{"event":"bestBlockChanged","bestBlockHash":"${hash}"}`;
const finalized = (hash: string, pruned: readonly string[]): string =>
  `{"event":"finalized","finalizedBlockHashes":["${hash}"],"prunedBlockHashes":${JSON.stringify(pruned)}}`;

test("a client hears nothing of blocks that it has not been told of, also if the node calls one the best", () => {
  const { follow, broken, join } = setUp();
  const early = join();
  follow.receive(initialized(hashAt(100)));
  follow.receive(newBlock(hashAt(101), hashAt(100)));
  follow.receive(newBlock(hashAt(101, 1), hashAt(100)));
  follow.receive(best(hashAt(101)));
  // The node has not pruned the fork, of which a new client cannot be told.
  follow.receive(finalized(hashAt(101), []));
  const late = join();
  const begun = late.length;
  const ofFork = [newBlock(hashAt(102, 1), hashAt(101, 1)), best(hashAt(102, 1))];
  const ofChain = [newBlock(hashAt(102), hashAt(101)), best(hashAt(102))];
  for (const event of [...ofFork, ...ofChain]) follow.receive(event);
  follow.receive(finalized(hashAt(102), [hashAt(101, 1), hashAt(102, 1)]));
  assert.deepEqual(early.slice(-5, -1), [...ofFork, ...ofChain]);
  assert.deepEqual(late.slice(begun), [...ofChain, finalized(hashAt(102), [])]);
  assert.ok(!late.join("").includes(hashAt(101, 1)));
  assert.deepEqual(broken, []);
});

/** A pool that has told clients of the finalized block `floor`. The test answers when it is asked for a number. */
function scriptedPool(floor: number) {
  const asked: { readonly hash: string; readonly answer: (number?: number) => void }[] = [];
  const reported: string[] = [];
  const announcements: Announcements & { finalizedFloor: number } = {
    finalizedFloor: floor,
    announcedFinalized: (node, number, hash) => void reported.push(`${node} ${number} ${hash}`),
    numberOf: (_node, hash) => new Promise((answer) => asked.push({ hash, answer })),
    announcedBlocks() {},
    announcedPruned() {},
  };
  return { announcements, asked, reported };
}

/** Adds the next block of the chain to a follow, and finalizes it. */
function extend(follow: SharedFollow, number: number): void {
  follow.receive(newBlock(hashAt(number), hashAt(number - 1)));
  follow.receive(best(hashAt(number)));
  follow.receive(finalized(hashAt(number), []));
}

test("a client gets no events before the node has finalized the block that the pool has answered with", async () => {
  const { announcements, asked, reported } = scriptedPool(102);
  const { follow, join } = setUp(announcements);
  const waiting = join(102);
  const early = join(100);
  follow.receive(initialized(hashAt(100)));
  assert.deepEqual([waiting, early], [[], []], "the number of the block is not known yet");
  assert.equal(follow.awaited, 100);
  extend(follow, 101);
  assert.deepEqual(
    asked.map(({ hash }) => hash),
    [hashAt(100)],
  );
  asked[0]!.answer(100);
  await Promise.resolve();
  assert.equal(early.length, 2);
  assert.equal(follow.awaited, 102);
  extend(follow, 102);
  const hashes = [100, 101, 102].map((number) => hashAt(number));
  assert.deepEqual(waiting, [
    `{"event":"initialized","finalizedBlockHashes":${JSON.stringify(hashes)}}`,
    best(hashAt(102)),
  ]);
  assert.equal(follow.awaited, undefined);
  // The node has finalized 101 while it was asked for the number of 100.
  assert.deepEqual(reported, [`node 101 ${hashAt(101)}`, `node 102 ${hashAt(102)}`]);
});

test("a client that joins a follow waits if the pool has answered with a later block", async () => {
  const { announcements, asked } = scriptedPool(100);
  const { follow, join } = setUp(announcements);
  follow.receive(initialized(hashAt(100)));
  asked[0]!.answer(100);
  await Promise.resolve();
  announcements.finalizedFloor = 101;
  const late = join(101);
  assert.deepEqual(late, []);
  // The chain has started again, and the pool with it.
  announcements.finalizedFloor = 3;
  const afterReset = join(101);
  assert.equal(afterReset.length, 2);
});

test("the node is asked again if it does not know its own finalized block", async () => {
  const { announcements, asked } = scriptedPool(101);
  const { follow, join, clock } = setUp(announcements);
  const heard = join(101);
  follow.receive(initialized(hashAt(100)));
  asked[0]!.answer(undefined);
  await Promise.resolve();
  clock.advance(1000);
  assert.equal(asked.length, 2);
  asked[1]!.answer(undefined);
  await Promise.resolve();
  extend(follow, 101);
  assert.deepEqual(heard, []);
  asked[2]!.answer(101);
  await Promise.resolve();
  assert.equal(heard.length, 2);
  extend(follow, 102);
  clock.advance(1000);
  assert.equal(asked.length, 3);
});
