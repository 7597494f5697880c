/** How much of the subscriptions at a node, and of the memory for their values, one client can have. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { SubscriptionOpener } from "../../../../../plugins/contracts/index.ts";
import { until } from "../../until.ts";
import { ChainNode } from "./chain-node.ts";
import { heads, startFeed, storage } from "./feed-fixture.ts";

const openerOf = (name: string): SubscriptionOpener => ({
  key: `key_${name}`,
  workspace: `ws_${name}`,
});
const hexOf = (chars: number): string => `0x${"5a".repeat(chars / 2)}`;
const keysOf = (...keys: readonly string[]): string => JSON.stringify([keys]);
const unused = { onNotification() {}, onEnd() {} };

test("subscriptions with different keys share equal values, which count once until nobody keeps them", async () => {
  await using node = await ChainNode.start();
  const value = hexOf(2_000);
  node.storage.set("0xaa", `"${value}"`).set("0x01", '"0x01"').set("0x02", '"0x02"');
  using feed = startFeed(node);
  const open = async (opener: SubscriptionOpener, ...keys: string[]) => {
    const opened = await feed.feed.open({ name: storage }, keysOf(...keys), opener);
    assert.equal(opened.kind, "open");
    opened.subscription.start(unused);
    return opened.subscription;
  };
  const held = (): number => feed.memory.bytesOf("subscription");
  const first = await open(openerOf("a"), "0xaa", "0x01");
  await until(() => held() > value.length);
  const second = await open(openerOf("b"), "0xaa", "0x02");
  const small = 2 * (4 + 4 + 128);
  await until(() => held() === value.length + 4 + 128 + small);
  first.close();
  await feed.advance(6);
  assert.ok(held() > value.length, "the second subscription keeps the value");
  second.close();
  feed.clock.advance(6_000);
  await until(() => held() === 0);
});

test("a key whose values hold too much memory gets no further ones, and others are served", async () => {
  await using node = await ChainNode.start();
  const keys = Array.from({ length: 5 }, (_, at) => `0x0${at}`);
  for (const key of keys) node.storage.set(key, `"${hexOf(3_000)}"`);
  using feed = startFeed(node);
  const ended: unknown[] = [];
  for (const key of keys) {
    const opened = await feed.feed.open({ name: storage }, keysOf(key), openerOf("a"));
    if (opened.kind !== "open") ended.push(key);
    else opened.subscription.start({ ...unused, onEnd: () => void ended.push(key) });
  }
  await until(() => ended.length === 3);
  assert.ok(feed.memory.bytesOf("subscription") > 6_000);
  assert.ok(feed.memory.bytesOf("subscription") <= 8_000);
  const other = await feed.feed.open({ name: storage }, keysOf("0x04"), openerOf("b"));
  assert.equal(other.kind, "open");
  assert.equal((await feed.hear(heads)).length, 1);
});

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
      const opened = await Promise.race([opening, Promise.resolve(undefined)]);
      if (opened !== undefined) return opened.kind === "error" ? count : NaN;
    }
  };
  assert.equal(await refusedAt(openerOf("a")), 256);
  assert.equal(await refusedAt(openerOf("b")), 128);
  const opened = await feed.feed.open({ name: heads }, "", openerOf("a"));
  assert.equal(opened.kind, "open");
});
