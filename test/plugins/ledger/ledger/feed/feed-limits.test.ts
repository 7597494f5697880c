/** How many of the storage subscriptions at the nodes one workspace can have. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { SubscriptionOpener } from "../../../../../plugins/contracts/index.ts";
import { ChainNode } from "./chain-node.ts";
import { heads, startFeed, storage } from "./feed-fixture.ts";

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
