/**
 * The subscriptions that nodes offer under the names of the older JSON-RPC interface. Source: the `#[subscription]`
 * attributes of sc-rpc-api, sc-consensus-grandpa-rpc and sc-consensus-beefy-rpc in polkadot-sdk.
 */
import type { SubscriptionMethod } from "sluice-gateway/services";
import type { PoolConfig } from "../options.ts";
import { createPricedMethods } from "../priced-methods.ts";

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

export interface FeedMethod extends SubscriptionMethod {
  /** Names of the method that nodes accept. The first is the one of the whitelist. */
  readonly names: readonly string[];
  readonly kind: SubscriptionKind;
  /** The node's name of the unsubscribing method. */
  readonly unsubscribe: string;
}

/** `names`: see `FeedMethod`. The prices are those of decisions.md section 14. */
function createMethod(
  kind: SubscriptionKind,
  notification: string,
  names: readonly [string, ...string[]],
): FeedMethod {
  const [name] = names;
  const unsubscribe = unsubscribing(name);
  return {
    name,
    names,
    notification,
    kind,
    unsubscribe,
    openMilliCu: 1000,
    notificationMilliCu: 100,
  };
}

function unsubscribing(name: string): string {
  return name.replace("subscribe", "unsubscribe");
}

const known: readonly FeedMethod[] = [
  createMethod("heads", "chain_newHead", [
    "chain_subscribeNewHeads",
    "chain_subscribeNewHead",
    "subscribe_newHead",
  ]),
  createMethod("allHeads", "chain_allHead", ["chain_subscribeAllHeads"]),
  createMethod("finalized", "chain_finalizedHead", [
    "chain_subscribeFinalizedHeads",
    "chain_subscribeFinalisedHeads",
  ]),
  createMethod("value", "state_runtimeVersion", [
    "state_subscribeRuntimeVersion",
    "chain_subscribeRuntimeVersion",
  ]),
  createMethod("storage", "state_storage", ["state_subscribeStorage"]),
  createMethod("events", "grandpa_justifications", ["grandpa_subscribeJustifications"]),
  createMethod("events", "beefy_justifications", ["beefy_subscribeJustifications"]),
];

export interface FeedMethods {
  readonly subscribing: ReadonlyMap<string, FeedMethod>;
  readonly unsubscribing: ReadonlyMap<string, FeedMethod>;
}

/** Such methods are not in the whitelist. */
export function isSubscription(method: string): boolean {
  return known.some(({ name }) => name === method);
}

export function createFeedMethods(upstream: Pick<PoolConfig, "methods">): FeedMethods {
  const { methods, ending } = createPricedMethods(known, upstream.methods, ({ names }) => ({
    opening: names,
    ending: names.map(unsubscribing),
  }));
  return { subscribing: methods, unsubscribing: ending };
}
