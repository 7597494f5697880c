/** Subscriptions whose clients have been told of a later block, by another node or of another chain. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { until } from "../../until.ts";
import { ChainNode, headerOf } from "./chain-node.ts";
import { finalizedHeads, heads, startFeed } from "./feed-fixture.ts";

type TestFeed = ReturnType<typeof startFeed>;

/** Extends the chain of the second node up to this block, which the node has reported to a probe. */
function finalizeElsewhere(feed: TestFeed, node: ChainNode, finalized: number): void {
  node.advance(finalized);
  feed.announcements.finalizedFloor = finalized;
  const head = { best: finalized, finalized, bestHash: undefined };
  feed.targets[1] = { ...feed.targets[1]!, head };
}

/** Advances the clock until the subscriptions have moved. `onSecond`: what the first node does in each second. */
async function untilMoved(feed: TestFeed, onSecond: (second: number) => void): Promise<void> {
  for (let second = 0; feed.moves() === 0; second++) {
    assert.ok(second <= 30, "the node is still used after 30 s");
    onSecond(second);
    await feed.advance(1);
  }
}

test("a new subscription to finalized heads does not start below the finalized head of the pool", async () => {
  await using node = await ChainNode.start();
  using feed = startFeed(node);
  feed.announcements.finalizedFloor = 102;
  const heard = await feed.subscribe(finalizedHeads);
  await until(() => node.open(finalizedHeads) === 1);
  node.advance(103);
  await until(() => heard.length === 2);
  assert.deepEqual(heard, [headerOf(102), headerOf(103)]);
  // A subscription that has started continues without a gap, and a client that joins it waits.
  feed.announcements.finalizedFloor = 105;
  const joined = await feed.subscribe(finalizedHeads);
  node.advance(104);
  await until(() => heard.length === 3);
  assert.equal(heard[2], headerOf(104));
  assert.deepEqual(joined, []);
  node.advance(106);
  await until(() => joined.length === 2);
  assert.deepEqual(joined, [headerOf(105), headerOf(106)]);
  const label = new URL(node.url).host;
  const numbers = [100, 101, 102, 103, 104, 105, 106];
  assert.deepEqual(
    feed.announcements.announced,
    numbers.map((number) => `${label} ${number}`),
  );
});

test("a node is left if clients wait for a block that another node has finalized", async () => {
  await using behind = await ChainNode.start();
  await using ahead = await ChainNode.start();
  ahead.advance(103);
  using feed = startFeed(behind, ahead);
  feed.announcements.finalizedFloor = 103;
  const heard = await feed.subscribe(finalizedHeads);
  // No other node is known to have the block.
  await feed.advance(25);
  assert.equal(feed.moves(), 0);
  feed.targets[1] = {
    ...feed.targets[1]!,
    head: { best: 103, finalized: 103, bestHash: undefined },
  };
  await feed.advance(20);
  assert.equal(feed.moves(), 0);
  feed.clock.advance(1000);
  await until(() => heard.length === 1);
  assert.deepEqual(heard, [headerOf(103)]);
  assert.equal(feed.moves(), 1);
});

test("a node that is always a little behind is not left", async () => {
  await using behind = await ChainNode.start();
  await using ahead = await ChainNode.start();
  using feed = startFeed(behind, ahead);
  for (let finalized = 101; finalized <= 104; finalized++) {
    finalizeElsewhere(feed, ahead, finalized);
    const heard = await feed.subscribe(finalizedHeads);
    await feed.advance(10);
    assert.deepEqual(heard, []);
    behind.advance(finalized);
    await until(() => heard.length === 1);
  }
  assert.equal(feed.moves(), 0);
});

test("a node is left even if the clients that wait are others each time", async () => {
  await using behind = await ChainNode.start();
  await using ahead = await ChainNode.start();
  using feed = startFeed(behind, ahead);
  for (let finalized = 103; feed.moves() === 0; finalized += 2) {
    assert.ok(finalized <= 107, "the node is still used after 45 s");
    finalizeElsewhere(feed, ahead, finalized);
    const opened = await feed.feed.open({ name: finalizedHeads }, "[]");
    assert.ok(opened.kind === "open");
    opened.subscription.start({ onNotification() {}, onEnd() {} });
    await feed.advance(15);
    opened.subscription.close();
  }
});

test("heads that are late now and then do not keep a node that finalizes nothing", async () => {
  await using behind = await ChainNode.start();
  await using ahead = await ChainNode.start();
  using feed = startFeed(behind, ahead);
  finalizeElsewhere(feed, ahead, 110);
  await feed.hear(heads);
  const waiting = await feed.subscribe(finalizedHeads);
  await untilMoved(feed, (second) => {
    if (second % 6 !== 0) return;
    const best = 101 + second / 6;
    feed.report({ best: best + 2, finalized: 100, bestHash: undefined });
    behind.notify(heads, headerOf(best));
  });
  await until(() => waiting.length === 1);
  assert.equal(waiting[0], headerOf(110));
});

test("subscriptions end when the chain has started again, and new clients get its heads", async () => {
  await using node = await ChainNode.start();
  using feed = startFeed(node);
  const heard = await feed.hear(finalizedHeads);
  feed.announcements.finalizedFloor = 105;
  const waiting = await feed.subscribe(finalizedHeads);
  node.best = node.finalized = 5;
  node.cut();
  await until(() => node.count(finalizedHeads) === 2);
  feed.pool.chain = 2;
  feed.announcements.finalizedFloor = 5;
  node.advance(6);
  await until(() => heard.includes("end") && waiting.includes("end"));
  assert.deepEqual([heard, waiting], [[headerOf(100), "end"], ["end"]]);
  assert.deepEqual(await feed.hear(finalizedHeads), [headerOf(6)]);
});

test("a client that starts after its subscription has ended is told so", async () => {
  await using node = await ChainNode.start();
  using feed = startFeed(node);
  const opened = await feed.feed.open({ name: heads }, "[]");
  assert.ok(opened.kind === "open");
  const other = await feed.hear(heads);
  feed.pool.chain = 2;
  node.advance(101);
  await until(() => other.includes("end"));
  const heard: string[] = [];
  opened.subscription.start({
    onNotification: (result) => void heard.push(result),
    onEnd: () => void heard.push("end"),
  });
  assert.deepEqual(heard, ["end"]);
});

test("a node that repeats an old finalized head is left", async () => {
  await using behind = await ChainNode.start();
  await using ahead = await ChainNode.start();
  using feed = startFeed(behind, ahead);
  finalizeElsewhere(feed, ahead, 110);
  const waiting = await feed.subscribe(finalizedHeads);
  await untilMoved(feed, () => behind.notify(finalizedHeads, headerOf(100)));
  await until(() => waiting.length === 1);
  assert.equal(waiting[0], headerOf(110));
});

test("a client does not wait for a finalized head that the pool has withdrawn", async () => {
  await using node = await ChainNode.start();
  using feed = startFeed(node);
  feed.announcements.finalizedFloor = 110;
  const waiting = await feed.subscribe(finalizedHeads);
  feed.announcements.finalizedFloor = 100;
  node.advance(101);
  await until(() => waiting.length === 1);
  assert.equal(waiting[0], headerOf(101));
});

test("a node far behind is left, although it finalizes blocks", async () => {
  await using behind = await ChainNode.start();
  await using ahead = await ChainNode.start();
  using feed = startFeed(behind, ahead);
  finalizeElsewhere(feed, ahead, 200);
  const waiting = await feed.subscribe(finalizedHeads);
  await untilMoved(feed, (second) => behind.advance(101 + second));
  await until(() => waiting.length === 1);
  assert.equal(waiting[0], headerOf(200));
});
