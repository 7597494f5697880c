/** Subscriptions whose clients may know a later block, or a block of another chain. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { until } from "../../until.ts";
import { ChainNode, headerOf } from "./chain-node.ts";
import { finalizedHeads, heads, startFeed } from "./feed-fixture.ts";

test("a new subscription to finalized heads does not start below the floor of the pool", async () => {
  await using node = await ChainNode.start();
  using feed = startFeed(node);
  feed.reference.floor = 102;
  const opening = feed.subscribe(finalizedHeads);
  await until(() => node.open(finalizedHeads) === 1);
  node.advance(102);
  const heard = await opening;
  node.advance(103);
  await until(() => heard.length === 2);
  assert.deepEqual(heard, [headerOf(102), headerOf(103)]);
  // A subscription that has started continues without a gap, and a client that joins it waits.
  feed.reference.floor = 105;
  const joining = feed.subscribe(finalizedHeads);
  node.advance(104);
  await until(() => heard.length === 3);
  assert.equal(heard[2], headerOf(104));
  node.advance(105);
  const joined = await joining;
  node.advance(106);
  await until(() => joined.length === 2);
  assert.deepEqual(joined, [headerOf(105), headerOf(106)]);
  const label = new URL(node.url).host;
  const numbers = [100, 101, 102, 103, 104, 105, 106];
  assert.deepEqual(
    feed.reference.announcements,
    numbers.map((number) => `${label} ${number}`),
  );
});

test("a client that waits for more than two seconds gets an error, and the others continue", async () => {
  await using node = await ChainNode.start();
  using feed = startFeed(node);
  const heard = await feed.hear(finalizedHeads);
  feed.reference.floor = 105;
  const opening = feed.feed.open({ name: finalizedHeads }, "[]");
  await feed.advance(3);
  assert.equal((await opening).kind, "failed");
  node.advance(101);
  await until(() => heard.length === 2);
});

test("a new client gets an error if there is no reference node for two seconds", async () => {
  await using node = await ChainNode.start();
  using feed = startFeed(node);
  feed.targets.length = 0;
  const opening = feed.feed.open({ name: heads }, "[]");
  feed.clock.advance(1_999);
  assert.equal(await Promise.race([opening, Promise.resolve("waits")]), "waits");
  feed.clock.advance(1);
  assert.equal((await opening).kind, "failed");
});

test("the subscriptions move when another node becomes the reference, and continue without a gap", async () => {
  await using first = await ChainNode.start();
  await using second = await ChainNode.start();
  using feed = startFeed(first, second);
  const heard = await feed.hear(finalizedHeads);
  second.advance(103);
  feed.reference.lose(feed.reference.target!.label);
  await until(() => heard.length === 4);
  assert.deepEqual(
    heard,
    [100, 101, 102, 103].map((number) => headerOf(number)),
  );
  assert.equal(feed.moves(), 1);
});

test("subscriptions end when the chain has started again, and new clients get its heads", async () => {
  await using node = await ChainNode.start();
  using feed = startFeed(node);
  const heard = await feed.hear(finalizedHeads);
  node.best = node.finalized = 5;
  node.cut();
  await until(() => node.count(finalizedHeads) === 2);
  feed.pool.chain = 2;
  node.advance(6);
  await until(() => heard.includes("end"));
  assert.deepEqual(heard, [headerOf(100), "end"]);
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
