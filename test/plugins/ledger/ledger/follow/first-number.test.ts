/** Follows of a pool that knows no finalized head yet. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { AnswerCache } from "../../../../../plugins/ledger/ledger/cache.ts";
import { createFollowMethods } from "../../../../../plugins/ledger/ledger/follow/follow-methods.ts";
import { Follows } from "../../../../../plugins/ledger/ledger/follow/follows.ts";
import { createMetrics } from "../../../../../src/metrics.ts";
import { manualClock } from "../../../../../src/testing/clock.ts";
import { silentLog } from "../../../../test-log.ts";
import { until } from "../../until.ts";
import { FollowNode } from "./follow-node.ts";

test("a client waits until the pool knows the number of the finalized block", async () => {
  await using node = await FollowNode.start();
  const url = new URL(node.url);
  const number = Promise.withResolvers<number>();
  let isAsked = false;
  let announced: number | undefined;
  const announcements = {
    finalizedFloor: undefined,
    announcedFinalized: (_node: string, reported: number) => void (announced = reported),
    numberOf: () => ((isAsked = true), number.promise),
    announcedBlocks() {},
    announcedPruned() {},
  };
  const follows = new Follows({
    upstream: {
      name: "ledger",
      connectMs: 1000,
      headersMs: 1000,
      idleMs: 1000,
      answerBytes: 100_000,
      singleFlight: true,
    },
    methods: createFollowMethods({ methods: {} }),
    pool: { targets: () => [{ label: url.host, url }], announcements },
    cache: new AnswerCache(1),
    clock: manualClock(),
    log: silentLog,
    metrics: createMetrics(),
  });
  try {
    const opened = await follows.open(false);
    assert.ok(opened.kind === "open");
    const heard: (number | undefined)[] = [];
    opened.subscription.start({
      onNotification: () => void heard.push(announced),
      onEnd() {},
    });
    await until(() => isAsked);
    assert.deepEqual(heard, []);
    number.resolve(100);
    await until(() => heard.length === 2);
    assert.deepEqual(heard, [100, 100], "the pool has learned the number first");
  } finally {
    follows.close();
  }
});
