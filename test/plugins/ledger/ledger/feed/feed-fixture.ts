/** A feed of scripted nodes with a manual clock, for tests. */
import assert from "node:assert/strict";
import { Feed } from "../../../../../plugins/ledger/ledger/feed/feed.ts";
import { createFeedMethods } from "../../../../../plugins/ledger/ledger/feed/subscription-methods.ts";
import type {
  NodeHead,
  NodePool,
  NodeTarget,
  ReferenceNode,
} from "../../../../../plugins/ledger/ledger/node-pool.ts";
import { createMetrics } from "../../../../../src/base/metrics.ts";
import { manualClock } from "../../../../../src/testing/clock.ts";
import { until } from "../../until.ts";
import { silentLog } from "../../../../test-log.ts";
import { hashOf, type ChainNode } from "./chain-node.ts";

export const messageBytes = 4_000;
export const storage = "state_subscribeStorage";
export const heads = "chain_subscribeNewHeads";
export const finalizedHeads = "chain_subscribeFinalizedHeads";

/** The first node, and after each loss the next one. */
export function scriptedReference(targets: readonly NodeTarget[]) {
  const listeners = new Set<() => void>();
  let index = 0;
  const reference = {
    floor: 0 as number | undefined,
    announcements: [] as string[],
    get target() {
      return targets[index % targets.length];
    },
    ready: async () => true,
    announced: (node, number) => void reference.announcements.push(`${node} ${number}`),
    lose(label) {
      if (label !== reference.target?.label) return;
      index++;
      for (const listener of listeners) listener();
    },
    onChange(listener) {
      listeners.add(listener);
      return { [Symbol.dispose]: () => void listeners.delete(listener) };
    },
  } satisfies ReferenceNode & { floor: number | undefined; announcements: string[] };
  return reference;
}

export function startFeed(...nodes: readonly ChainNode[]) {
  const clock = manualClock();
  const metrics = createMetrics();
  const targets: NodeTarget[] = nodes.map(({ url }) => ({
    label: new URL(url).host,
    url: new URL(url),
  }));
  const reference = scriptedReference(targets);
  const pool: { chain: number } & Pick<NodePool, "targets" | "best" | "reference"> = {
    targets: () => targets,
    best: undefined,
    chain: 1,
    reference,
  };
  const feed = new Feed({
    upstream: {
      name: "ledger",
      connectMs: 1000,
      headersMs: 29_000,
      idleMs: 1000,
      answerBytes: messageBytes,
    },
    methods: createFeedMethods({ methods: {} }),
    pool,
    clock,
    log: silentLog,
    metrics,
  });
  return {
    clock,
    feed,
    reference,
    pool,
    targets,
    /** Advances the clock second by second. The node answers a request, and before it the pings, after each second. */
    async advance(seconds: number): Promise<void> {
      for (let passed = 0; passed < seconds; passed++) {
        clock.advance(1000);
        await feed.header(hashOf(1));
      }
    },
    /** Changes what the first node reports to the probes of the pool. */
    report: (head: NodeHead) => (targets[0] = { ...targets[0]!, head }),
    /** Number of times that the subscriptions have moved to another connection. */
    moves: () => metrics.read("sluice_ledger_subscription_moves_total")[0]?.value ?? 0,
    async refusal(params: string): Promise<string> {
      const opened = await feed.open({ name: storage }, params);
      assert.ok(opened.kind === "error", opened.kind);
      return opened.error;
    },
    /** Subscribes, and returns what the client receives. */
    async subscribe(name: string, params = "[]"): Promise<string[]> {
      const opened = await feed.open({ name }, params);
      assert.ok(opened.kind === "open", JSON.stringify(opened));
      const received: string[] = [];
      opened.subscription.start({
        onNotification: (result) => void received.push(result),
        onEnd: () => void received.push("end"),
      });
      return received;
    },
    /** Subscribes, and returns what the client receives, as soon as there is something. */
    async subscribeAndWait(name: string, params = "[]"): Promise<string[]> {
      const received = await this.subscribe(name, params);
      await until(() => received.length > 0);
      return received;
    },
    [Symbol.dispose]: () => feed.close(),
  };
}
