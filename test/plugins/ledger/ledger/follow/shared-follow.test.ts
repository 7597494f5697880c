/** Tests of a follow that clients share, with a manual clock and a node that the test answers for. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { SharedFollow } from "../../../../../plugins/ledger/ledger/follow/shared-follow.ts";
import type { FinalizedBlock } from "../../../../../plugins/ledger/ledger/node-pool.ts";
import { manualClock } from "../../../../../src/testing/clock.ts";
import { until } from "../../until.ts";
import { startLedger } from "../start-ledger.ts";
import { hashAt, FollowNode } from "./follow-node.ts";

function setUp() {
  const broken: string[] = [];
  const asked: { readonly hash: string; readonly answer: (number?: number) => void }[] = [];
  const announced: FinalizedBlock[] = [];
  const clock = manualClock();
  const follow = new SharedFollow('"f"', false, {
    clock,
    answerMs: 1000,
    cache: undefined,
    sharing: true,
    send() {},
    onBroken: (reason) => void broken.push(reason),
    onUnused() {},
    numberOf: (hash) => new Promise((answer) => asked.push({ hash, answer })),
    onFinalized: (block) => void announced.push(block),
    onChange() {},
  });
  const join = (): string[] => {
    const received: string[] = [];
    follow.join().start({
      onNotification: (event) => void received.push(event),
      onEnd: () => void received.push("end"),
    });
    return received;
  };
  return { follow, broken, join, clock, asked, announced };
}

const initialized = (hash: string): string =>
  `{"event":"initialized","finalizedBlockHashes":["${hash}"]}`;
const newBlock = (hash: string, parent: string): string =>
  `{"event":"newBlock","blockHash":"${hash}","parentBlockHash":"${parent}"}`;
const best = (hash: string): string => `{"event":"bestBlockChanged","bestBlockHash":"${hash}"}`;
const finalized = (hash: string, pruned: readonly string[]): string =>
  `{"event":"finalized","finalizedBlockHashes":["${hash}"],"prunedBlockHashes":${JSON.stringify(pruned)}}`;

test("a client gets no events of blocks that were not announced to it, also if the node calls one the best", () => {
  const { follow, broken, join } = setUp();
  const early = join();
  follow.receive(initialized(hashAt(100)));
  follow.receive(newBlock(hashAt(101), hashAt(100)));
  follow.receive(newBlock(hashAt(101, 1), hashAt(100)));
  follow.receive(best(hashAt(101)));
  // The node has not pruned the fork, which cannot be announced to a new client.
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

function extend(follow: SharedFollow, number: number): void {
  follow.receive(newBlock(hashAt(number), hashAt(number - 1)));
  follow.receive(best(hashAt(number)));
  follow.receive(finalized(hashAt(number), []));
}

test("the finalized blocks are announced with their numbers before the clients are notified", async () => {
  const { follow, asked, announced } = setUp();
  const received: unknown[] = [];
  follow.join().start({
    onNotification: (event) => {
      if (event.includes('"finalized"')) received.push(announced.at(-1)?.number);
    },
    onEnd() {},
  });
  follow.receive(initialized(hashAt(100)));
  extend(follow, 101);
  assert.deepEqual(
    asked.map(({ hash }) => hash),
    [hashAt(100)],
  );
  // The node has finalized 101 while it was asked for the number of 100.
  asked[0]!.answer(100);
  assert.equal(await follow.reached(101), true);
  extend(follow, 102);
  assert.deepEqual(announced, [
    { number: 101, hash: hashAt(101) },
    { number: 102, hash: hashAt(102) },
  ]);
  assert.deepEqual(received, [undefined, 102]);
});

test("the node is asked again if it does not know its own finalized block", async () => {
  const { follow, asked } = setUp();
  const waiting = follow.reached(101);
  follow.receive(initialized(hashAt(100)));
  asked[0]!.answer(undefined);
  await Promise.resolve();
  extend(follow, 101);
  assert.equal(asked.length, 2);
  asked[1]!.answer(101);
  assert.equal(await waiting, true);
  extend(follow, 102);
  assert.equal(asked.length, 2);
});

test("a node that announces no more blocks, although it has them, is left after twenty seconds", async () => {
  await using first = await FollowNode.start();
  await using second = await FollowNode.start();
  await using started = await startLedger([first.url, second.url], { cacheBytes: 0 });
  await started.probed;
  const { follows } = started.ledger;
  const opened = await follows.open(true);
  assert.ok(opened.kind === "open");
  const received: string[] = [];
  opened.subscription.start({
    onNotification: (event) => void received.push(event),
    onEnd: () => void received.push("end"),
  });
  await until(() => received.length === 2);
  /** Advances the clock second by second. After each, the node answers requests, pings and a probe. */
  const advance = async (seconds: number): Promise<void> => {
    for (let passed = 0; passed < seconds; passed++) {
      started.clock.advance(1000);
      for (let calls = 0; calls < 12; calls++) await opened.subscription.header(hashAt(100));
    }
  };
  // Without new blocks, the node has nothing to send.
  await advance(25);
  assert.equal(received.length, 2);
  first.isSilent = true;
  first.add(hashAt(101), hashAt(100));
  await advance(3);
  assert.equal(started.nodes()[0]?.best, 101);
  await advance(15);
  assert.equal(received.length, 2);
  await advance(4);
  assert.deepEqual(received.slice(2), ["end"]);
  assert.equal((await follows.open(true)).kind, "open");
  await until(() => second.follows.size === 1);
});
