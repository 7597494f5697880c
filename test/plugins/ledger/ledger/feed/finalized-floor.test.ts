/** Subscriptions whose clients may know a later block, or a block of another chain. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { until } from "../../until.ts";
import { ChainNode, headerOf } from "./chain-node.ts";
import { finalizedHeads, heads, startFeed } from "./feed-fixture.ts";

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
