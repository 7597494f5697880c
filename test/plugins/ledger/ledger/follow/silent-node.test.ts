/** Nodes that keep their connection but send no events of the follow. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { AnswerCache } from "../../../../../plugins/ledger/ledger/cache.ts";
import { createFollowMethods } from "../../../../../plugins/ledger/ledger/follow/follow-methods.ts";
import { Follows } from "../../../../../plugins/ledger/ledger/follow/follows.ts";
import type { NodeTarget } from "../../../../../plugins/ledger/ledger/node-pool.ts";
import { createMetrics } from "../../../../../src/base/metrics.ts";
import { manualClock } from "../../../../../src/testing/clock.ts";
import { silentLog } from "../../../../test-log.ts";
import { until } from "../../until.ts";
import { scriptedReference } from "../feed/feed-fixture.ts";
import { FollowNode, hashAt } from "./follow-node.ts";

test("a node that announces no more blocks, although it has them, is left after twenty seconds", async () => {
  await using first = await FollowNode.start();
  await using second = await FollowNode.start();
  const clock = manualClock();
  const targets: NodeTarget[] = [first, second].map((node) => ({
    label: new URL(node.url).host,
    url: new URL(node.url),
    head: { best: 100, bestHash: node.best, finalized: 100 },
  }));
  const follows = new Follows({
    upstream: {
      name: "ledger",
      connectMs: 1000,
      headersMs: 29_000,
      idleMs: 1000,
      answerBytes: 100_000,
      singleFlight: true,
    },
    methods: createFollowMethods({ methods: {} }),
    pool: { reference: scriptedReference(targets) },
    cache: new AnswerCache(1),
    clock,
    log: silentLog,
    metrics: createMetrics(),
  });
  try {
    const opened = await follows.open(true);
    assert.ok(opened.kind === "open");
    const received: string[] = [];
    opened.subscription.start({
      onNotification: (event) => void received.push(event),
      onEnd: () => void received.push("end"),
    });
    await until(() => received.length === 2);
    /** Advances the clock second by second. The node answers a request, and before it the pings, after each second. */
    const advance = async (seconds: number): Promise<void> => {
      for (let passed = 0; passed < seconds; passed++) {
        clock.advance(1000);
        await opened.subscription.header(hashAt(100));
      }
    };
    // Without new blocks, the node has nothing to send.
    await advance(25);
    assert.equal(received.length, 2);
    first.isSilent = true;
    first.add(hashAt(101), hashAt(100));
    const { label, url } = targets[0]!;
    targets[0] = { label, url, head: { best: 101, bestHash: first.best, finalized: 100 } };
    await advance(19);
    assert.equal(received.length, 2);
    await advance(2);
    assert.deepEqual(received.slice(2), ["end"]);
    assert.equal((await follows.open(true)).kind, "open");
    await until(() => second.follows.size === 1);
  } finally {
    follows.close();
  }
});
