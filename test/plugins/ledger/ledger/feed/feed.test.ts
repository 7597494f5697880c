/** Tests of the state machine of shared subscriptions, with a manual clock and a reference node that the test chooses. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { SubscriptionOpener } from "../../../../../plugins/contracts/index.ts";
import { EventState } from "../../../../../plugins/ledger/ledger/feed/notification-state.ts";
import { until } from "../../until.ts";
import { ChainNode, hashOf, headerOf } from "./chain-node.ts";
import { finalizedHeads, heads, messageBytes, startFeed, storage } from "./feed-fixture.ts";

const hexOf = (chars: number): string => `0x${"5a".repeat(chars / 2)}`;
const storageOf = (...keys: readonly string[]): string => JSON.stringify([keys]);

const changes = (node: ChainNode, key: string, value: string): string =>
  `{"block":"${hashOf(node.best)}","changes":[["${key}","${value}"]]}`;

test("a storage subscription that is too large does not disturb those of other workspaces", async () => {
  await using node = await ChainNode.start();
  node.storage.set("0xaa", '"0x01"').set("0xff", `"${hexOf(messageBytes)}"`);
  using feed = startFeed(node);
  const other = { key: "other", workspace: "other" };
  const opened = await feed.feed.open({ name: storage }, storageOf("0xaa"), other);
  assert.equal(opened.kind, "open");
  const count = node.count(storage);
  await feed.refusal(storageOf("0xff"));
  assert.equal(node.count(storage), count + 2, "nothing but the refused one was opened");
});

test("a subscription is too large only if a second node says so, too", async () => {
  await using liar = await ChainNode.start();
  await using honest = await ChainNode.start();
  liar.storage.set("0xaa", `"${hexOf(messageBytes)}"`);
  honest.storage.set("0xaa", '"0x01"');
  using feed = startFeed(liar, honest);
  assert.deepEqual(await feed.subscribeAndWait(storage, storageOf("0xaa")), [
    changes(honest, "0xaa", "0x01"),
  ]);
});

test("a storage subscription that no node answers fails, and one that is open is opened again", async () => {
  await using node = await ChainNode.start();
  node.storage.set("0xaa", '"0x01"');
  using feed = startFeed(node);
  const values = await feed.subscribeAndWait(storage, storageOf("0xaa"));
  node.answers.set(storage, "");
  const asked = node.count(storage);
  node.cut();
  await until(() => node.count(storage) === asked + 1);
  const opened = feed.feed.open({ name: storage }, storageOf("0xcc"));
  await until(() => node.count(storage) > asked + 1);
  feed.clock.advance(31_000);
  assert.equal((await opened).kind, "failed");
  node.answers.clear();
  node.storage.set("0xaa", '"0x03"');
  await until(() => {
    feed.clock.advance(100);
    return values.length > 1;
  });
  assert.equal(values[1], changes(node, "0xaa", "0x03"));
});

test("repeated losses of the only node are answered with growing delays", async () => {
  await using node = await ChainNode.start();
  using feed = startFeed(node);
  const received = await feed.subscribeAndWait(heads);
  const lose = async (): Promise<void> => {
    const opened = node.count(heads);
    node.say("{");
    await until(() => node.open(heads) === 0 || node.count(heads) > opened);
  };
  await lose();
  await until(() => node.open(heads) === 1);
  for (const ms of [400, 800, 1600, 3200, 5000, 5000]) {
    const calls = node.count(heads);
    await lose();
    await until(() => feed.moves() > 0 && node.open(heads) === 0);
    feed.clock.advance(ms - 1);
    assert.equal(node.count(heads), calls);
    feed.clock.advance(1);
    await until(() => node.open(heads) === 1);
    assert.equal(node.count(heads), calls + 1);
  }
  feed.clock.advance(10_000);
  await lose();
  await until(() => node.open(heads) === 1);
  node.advance(node.best + 1);
  await until(() => received.length === 2);
});

for (const [method, head] of [
  [heads, { best: 101, finalized: 100 }],
  ["chain_subscribeAllHeads", { best: 101, finalized: 100 }],
  ["chain_subscribeFinalizedHeads", { best: 101, finalized: 101 }],
] as const) {
  test(`a node that sends no more notifications of ${method}, although it has new blocks, is left`, async () => {
    await using first = await ChainNode.start();
    await using second = await ChainNode.start();
    using feed = startFeed(first, second);
    feed.report({ best: 100, finalized: 100, bestHash: undefined });
    const received = await feed.subscribeAndWait(method);
    const { length } = received;
    await feed.advance(25);
    assert.equal(feed.moves(), 0, "without new blocks, the node has nothing to send");
    feed.report({ ...head, bestHash: undefined });
    second.advance(101);
    await feed.advance(20);
    assert.equal(feed.moves(), 0);
    feed.clock.advance(1000);
    assert.equal(feed.moves(), 1);
    await until(() => received.length > length);
    assert.deepEqual(received, [headerOf(100), headerOf(101)]);
  });
}

test("a node that sends each head late is not left", async () => {
  await using first = await ChainNode.start();
  await using second = await ChainNode.start();
  using feed = startFeed(first, second);
  const received = await feed.subscribeAndWait(heads);
  for (let blocks = 1; blocks <= 5; blocks++) {
    feed.report({ best: 102 + blocks, finalized: 100, bestHash: undefined });
    await feed.advance(12);
    first.advance(100 + blocks);
    await until(() => received.length === 1 + blocks);
  }
  assert.equal(feed.moves(), 0);
});

test("a client that waits for more than two seconds gets an error, and the others continue", async () => {
  await using node = await ChainNode.start();
  using feed = startFeed(node);
  const received = await feed.subscribeAndWait(finalizedHeads);
  feed.reference.floor = 105;
  const opening = feed.feed.open({ name: finalizedHeads }, "[]");
  await feed.advance(3);
  assert.equal((await opening).kind, "failed");
  node.advance(101);
  await until(() => received.length === 2);
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
  const received = await feed.subscribeAndWait(finalizedHeads);
  node.best = node.finalized = 5;
  node.cut();
  await until(() => node.count(finalizedHeads) === 2);
  feed.pool.chain = 2;
  node.advance(6);
  await until(() => received.includes("end"));
  assert.deepEqual(received, [headerOf(100), "end"]);
  assert.deepEqual(await feed.subscribeAndWait(finalizedHeads), [headerOf(6)]);
});

test("a client that starts after its subscription has ended is notified of the end", async () => {
  await using node = await ChainNode.start();
  using feed = startFeed(node);
  const opened = await feed.feed.open({ name: heads }, "[]");
  assert.ok(opened.kind === "open");
  const other = await feed.subscribeAndWait(heads);
  feed.pool.chain = 2;
  node.advance(101);
  await until(() => other.includes("end"));
  const received: string[] = [];
  opened.subscription.start({
    onNotification: (result) => void received.push(result),
    onEnd: () => void received.push("end"),
  });
  assert.deepEqual(received, ["end"]);
});

const openerOf = (name: string): SubscriptionOpener => ({
  key: `key_${name}`,
  workspace: `ws_${name}`,
});
const keysOf = (...keys: readonly string[]): string => JSON.stringify([keys]);

async function microtasks(count: number): Promise<void> {
  for (let n = 0; n < count; n++) await Promise.resolve();
}

test("a workspace has at most half of the storage subscriptions that are free; heads do not count", async () => {
  await using node = await ChainNode.start();
  using feed = startFeed(node);
  const refusedAt = async (opener: SubscriptionOpener): Promise<number> => {
    for (let count = 0; ; count++) {
      // Without a node that has answered, only a refusal is available at once.
      const opening = feed.feed.open(
        { name: storage },
        keysOf(`0x${count.toString(16).padStart(4, "0")}${opener.key === "key_a" ? "aa" : "bb"}`),
        opener,
      );
      const opened = await Promise.race([opening, microtasks(8)]);
      if (opened !== undefined) return opened.kind === "error" ? count : NaN;
    }
  };
  assert.equal(await refusedAt(openerOf("a")), 256);
  assert.equal(await refusedAt(openerOf("b")), 128);
  const opened = await feed.feed.open({ name: heads }, "", openerOf("a"));
  assert.equal(opened.kind, "open");
});

test("a node that lags does not repeat justifications", () => {
  const state = new EventState();
  const accept = (n: number): readonly string[] | string => state.accept(`"0x${n}"`);
  for (let n = 0; n < 100; n++) assert.deepEqual(accept(n), [`"0x${n}"`]);
  state.moved();
  for (let n = 36; n < 100; n++) assert.deepEqual(accept(n), []);
  assert.deepEqual(accept(100), ['"0x100"']);
  assert.deepEqual(accept(0), ['"0x0"'], "the number of remembered ones is limited");
});
