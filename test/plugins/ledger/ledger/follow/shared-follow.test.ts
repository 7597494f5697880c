import assert from "node:assert/strict";
import { test } from "node:test";
import { SharedFollow } from "../../../../../plugins/ledger/ledger/follow/shared-follow.ts";
import { manualClock } from "../../../../../src/testing/clock.ts";
import { hashAt } from "./follow-node.ts";

function setUp() {
  const broken: string[] = [];
  const follow = new SharedFollow('"f"', false, {
    clock: manualClock(),
    answerMs: 1000,
    cache: undefined,
    sharing: true,
    send() {},
    onBroken: (reason) => void broken.push(reason),
    onUnused() {},
    onChange() {},
    onAnnounced() {},
  });
  /** Adds a client, and returns what it hears. */
  const join = (): string[] => {
    const heard: string[] = [];
    follow.join().start({
      onNotification: (event) => void heard.push(event),
      onEnd: () => void heard.push("end"),
    });
    return heard;
  };
  return { follow, broken, join };
}

const newBlock = (hash: string, parent: string): string =>
  `{"event":"newBlock","blockHash":"${hash}","parentBlockHash":"${parent}"}`;
const best = (hash: string): string => `{"event":"bestBlockChanged","bestBlockHash":"${hash}"}`;
const finalized = (hash: string, pruned: readonly string[]): string =>
  `{"event":"finalized","finalizedBlockHashes":["${hash}"],"prunedBlockHashes":${JSON.stringify(pruned)}}`;

test("a client hears nothing of blocks that it has not been told of, also if the node calls one the best", () => {
  const { follow, broken, join } = setUp();
  const early = join();
  follow.receive(`{"event":"initialized","finalizedBlockHashes":["${hashAt(100)}"]}`);
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
