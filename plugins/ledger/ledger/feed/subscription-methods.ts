/**
 * The subscriptions that nodes offer under the names of the older JSON-RPC interface. Source: the `#[subscription]`
 * attributes of sc-rpc-api, sc-consensus-grandpa-rpc and sc-consensus-beefy-rpc in polkadot-sdk.
 */
import type { SubscriptionMethod } from "sluice-gateway/services";
import type { PoolConfig } from "../options.ts";

/**
 * Kinds of subscriptions, by what a new subscriber gets:
 *
 * - `heads`: headers of the best block. A new subscriber gets the last one.
 * - `allHeads`: headers of all blocks, including those of forks. A new subscriber gets the one of the best block.
 * - `finalized`: like `heads`, and the block number only increases.
 * - `value`: a value that a new subscriber gets.
 * - `events`: a new subscriber gets nothing until the next one.
 * - `storage`: changes of storage keys. A new subscriber gets the values of all its keys.
 */
export type SubscriptionKind = "heads" | "allHeads" | "finalized" | "value" | "events" | "storage";

interface KnownSubscription {
  /** Names of the method that nodes accept. The first is the one of the whitelist. */
  readonly names: readonly [string, ...string[]];
  readonly unsubscribe: readonly [string, ...string[]];
  readonly notification: string;
  readonly kind: SubscriptionKind;
}

/** decisions.md section 14. */
const openMilliCu = 1000;
const notificationMilliCu = 100;

const known: readonly KnownSubscription[] = [
  {
    names: ["chain_subscribeNewHeads", "chain_subscribeNewHead", "subscribe_newHead"],
    unsubscribe: ["chain_unsubscribeNewHeads", "chain_unsubscribeNewHead", "unsubscribe_newHead"],
    notification: "chain_newHead",
    kind: "heads",
  },
  {
    names: ["chain_subscribeAllHeads"],
    unsubscribe: ["chain_unsubscribeAllHeads"],
    notification: "chain_allHead",
    kind: "allHeads",
  },
  {
    names: ["chain_subscribeFinalizedHeads", "chain_subscribeFinalisedHeads"],
    unsubscribe: ["chain_unsubscribeFinalizedHeads", "chain_unsubscribeFinalisedHeads"],
    notification: "chain_finalizedHead",
    kind: "finalized",
  },
  {
    names: ["state_subscribeRuntimeVersion", "chain_subscribeRuntimeVersion"],
    unsubscribe: ["state_unsubscribeRuntimeVersion", "chain_unsubscribeRuntimeVersion"],
    notification: "state_runtimeVersion",
    kind: "value",
  },
  {
    names: ["state_subscribeStorage"],
    unsubscribe: ["state_unsubscribeStorage"],
    notification: "state_storage",
    kind: "storage",
  },
  {
    names: ["grandpa_subscribeJustifications"],
    unsubscribe: ["grandpa_unsubscribeJustifications"],
    notification: "grandpa_justifications",
    kind: "events",
  },
  {
    names: ["beefy_subscribeJustifications"],
    unsubscribe: ["beefy_unsubscribeJustifications"],
    notification: "beefy_justifications",
    kind: "events",
  },
];

/** A subscription method with the members that only the ledger needs. */
export interface FeedMethod extends SubscriptionMethod {
  readonly kind: SubscriptionKind;
  /** The node's name of the unsubscribing method. */
  readonly unsubscribe: string;
}

export interface FeedMethods {
  readonly subscribing: ReadonlyMap<string, FeedMethod>;
  readonly unsubscribing: ReadonlyMap<string, FeedMethod>;
}

/** Such methods are not in the whitelist. */
export function isSubscription(name: string): boolean {
  return known.some(({ names }) => names[0] === name);
}

/** Returns the methods of a deployment. The option `methods` removes them or changes their prices. */
export function createFeedMethods({ methods }: Pick<PoolConfig, "methods">): FeedMethods {
  const subscribing = new Map<string, FeedMethod>();
  const unsubscribing = new Map<string, FeedMethod>();
  for (const { names, unsubscribe, notification, kind } of known) {
    const [name] = names;
    const change = methods[name];
    if (change === false) continue;
    const method: FeedMethod = {
      name,
      notification,
      kind,
      unsubscribe: unsubscribe[0],
      openMilliCu: change?.cuMilli ?? openMilliCu,
      notificationMilliCu: change?.notificationCuMilli ?? notificationMilliCu,
    };
    for (const each of names) subscribing.set(each, method);
    for (const each of unsubscribe) unsubscribing.set(each, method);
  }
  return { subscribing, unsubscribing };
}
