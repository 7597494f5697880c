/** A follow of the service `ledger` at a node that falls silent. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { until } from "../../until.ts";
import { startLedger } from "../start-ledger.ts";
import { FollowNode, hashAt } from "./follow-node.ts";

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
