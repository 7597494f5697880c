/**
 * The methods that are offered over WebSocket only, with their prices (decisions.md section 14), which the option
 * `methods` changes. They are never in the whitelist. Sources: the JSON-RPC interface specification, sc-rpc-spec-v2, and
 * the `#[subscription]` attributes of sc-rpc-api, sc-consensus-grandpa-rpc and sc-consensus-beefy-rpc in polkadot-sdk.
 */
import type {
  ArchiveMethod,
  FollowMethod,
  FollowMethods,
  SubmissionMethod,
  SubscriptionMethod,
} from "sluice-gateway/services";
import type { PoolConfig } from "./options.ts";

/** `ending`: the same methods, by the names of the methods that end what they have begun. */
interface PricedMethods<Method> {
  readonly methods: ReadonlyMap<string, Method>;
  readonly ending: ReadonlyMap<string, Method>;
}

/** Undefined if the deployment removes the method. */
function withPrices<Method extends SubscriptionMethod>(
  method: Method,
  changes: PoolConfig["methods"],
): Method | undefined {
  const change = changes[method.name];
  if (change === false) return undefined;
  return {
    ...method,
    openMilliCu: change?.cuMilli ?? method.openMilliCu,
    notificationMilliCu: change?.notificationCuMilli ?? method.notificationMilliCu,
  };
}

/** `known`: the methods with their default prices. */
function createPricedMethods<Method extends SubscriptionMethod>(
  known: readonly Method[],
  changes: PoolConfig["methods"],
  namesOf: (method: Method) => Readonly<Record<"opening" | "ending", readonly string[]>>,
): PricedMethods<Method> {
  const methods = new Map<string, Method>();
  const ending = new Map<string, Method>();
  for (const each of known) {
    const method = withPrices(each, changes);
    if (method === undefined) continue;
    const names = namesOf(method);
    for (const name of names.opening) methods.set(name, method);
    for (const name of names.ending) ending.set(name, method);
  }
  return { methods, ending };
}

const subscriptionPrices = { openMilliCu: 1000, notificationMilliCu: 100 };

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

/** `names`: see `FeedMethod`. */
function feedMethod(
  kind: SubscriptionKind,
  notification: string,
  names: readonly [string, ...string[]],
): FeedMethod {
  const [name] = names;
  const unsubscribe = unsubscribing(name);
  return { name, names, notification, kind, unsubscribe, ...subscriptionPrices };
}

function unsubscribing(name: string): string {
  return name.replace("subscribe", "unsubscribe");
}

const feedMethods: readonly FeedMethod[] = [
  feedMethod("heads", "chain_newHead", [
    "chain_subscribeNewHeads",
    "chain_subscribeNewHead",
    "subscribe_newHead",
  ]),
  feedMethod("allHeads", "chain_allHead", ["chain_subscribeAllHeads"]),
  feedMethod("finalized", "chain_finalizedHead", [
    "chain_subscribeFinalizedHeads",
    "chain_subscribeFinalisedHeads",
  ]),
  feedMethod("value", "state_runtimeVersion", [
    "state_subscribeRuntimeVersion",
    "chain_subscribeRuntimeVersion",
  ]),
  feedMethod("storage", "state_storage", ["state_subscribeStorage"]),
  feedMethod("events", "grandpa_justifications", ["grandpa_subscribeJustifications"]),
  feedMethod("events", "beefy_justifications", ["beefy_subscribeJustifications"]),
];

export type FeedMethods = ReturnType<typeof createFeedMethods>;

export function createFeedMethods(upstream: Pick<PoolConfig, "methods">) {
  const { methods, ending } = createPricedMethods(feedMethods, upstream.methods, ({ names }) => ({
    opening: names,
    ending: names.map(unsubscribing),
  }));
  return { subscribing: methods, unsubscribing: ending };
}

/** An item costs what `chainHead_v1_storage` costs. */
const itemMilliCu = 500;

export interface KnownArchiveMethod extends ArchiveMethod {
  /** The event that carries a result, and the one after the last result. */
  readonly events: readonly [string, string];
  /** Names of the method that stops it. Nodes that are built from polkadot-sdk know only the last one. */
  readonly stop: readonly [string, ...string[]];
}

const archiveMethods: readonly KnownArchiveMethod[] = [
  {
    name: "archive_v1_storage",
    notification: "archive_v1_storageEvent",
    isPerItem: true,
    ...subscriptionPrices,
    openMilliCu: itemMilliCu,
    events: ["storage", "storageDone"],
    errorEvent: "storageError",
    stop: ["archive_v1_stopStorage"],
  },
  {
    name: "archive_v1_storageDiff",
    notification: "archive_v1_storageDiffEvent",
    isPerItem: false,
    ...subscriptionPrices,
    events: ["storageDiff", "storageDiffDone"],
    errorEvent: "storageDiffError",
    stop: ["archive_v1_stopStorageDiff", "archive_v1_storageDiff_stopStorageDiff"],
  },
];

export type ArchiveMethods = ReturnType<typeof createArchiveMethods>;

export function createArchiveMethods(changes: PoolConfig["methods"]) {
  const { methods, ending } = createPricedMethods(archiveMethods, changes, ({ name, stop }) => ({
    opening: [name],
    ending: stop,
  }));
  return { methods, stopping: ending };
}

/** The method that submits without a watch, so it does not need a connection of its own. */
export const submitMethod = "author_submitExtrinsic";
export const submitMilliCu = 10_000;

const submissionPrices = { openMilliCu: submitMilliCu, notificationMilliCu: 0 };

const submissionMethods: readonly SubmissionMethod[] = [
  {
    name: "author_submitAndWatchExtrinsic",
    kind: "legacy",
    ...submissionPrices,
    endMethod: "author_unwatchExtrinsic",
    notification: "author_extrinsicUpdate",
  },
  {
    name: "transactionWatch_v1_submitAndWatch",
    kind: "watch",
    ...submissionPrices,
    endMethod: "transactionWatch_v1_unwatch",
    notification: "transactionWatch_v1_watchEvent",
  },
  {
    name: "transaction_v1_broadcast",
    kind: "broadcast",
    ...submissionPrices,
    endMethod: "transaction_v1_stop",
    notification: "",
  },
];

export function createSubmissionMethods(changes: PoolConfig["methods"]) {
  return createPricedMethods(submissionMethods, changes, ({ name, endMethod }) => ({
    opening: [name],
    ending: [endMethod],
  }));
}

const followMethod = {
  name: "chainHead_v1_follow",
  notification: "chainHead_v1_followEvent",
  ...subscriptionPrices,
};

/** Prices in milli-CU. They are those of the comparable reads; storage is priced per item. */
const followPrices = {
  chainHead_v1_header: 200,
  chainHead_v1_body: 1000,
  chainHead_v1_storage: 500,
  chainHead_v1_call: 5000,
} as const;

export const followNames: readonly string[] = [
  ...Object.keys(followPrices),
  "chainHead_v1_continue",
  followMethod.name,
  "chainHead_v1_stopOperation",
  "chainHead_v1_unfollow",
  "chainHead_v1_unpin",
].toSorted();

/** Undefined if the option `methods` removes the group. */
export function createFollowMethods({
  methods,
}: Pick<PoolConfig, "methods">): FollowMethods | undefined {
  const follow = withPrices(followMethod, methods);
  if (follow === undefined) return undefined;
  const priced = (name: keyof typeof followPrices): FollowMethod => {
    const own = methods[name];
    return { name, cuMilli: (own === false ? undefined : own?.cuMilli) ?? followPrices[name] };
  };
  return {
    follow,
    header: priced("chainHead_v1_header"),
    body: priced("chainHead_v1_body"),
    storage: priced("chainHead_v1_storage"),
    call: priced("chainHead_v1_call"),
  };
}

const namesOverWebSocket: ReadonlySet<string> = new Set([
  ...[...feedMethods, ...archiveMethods, ...submissionMethods].map(({ name }) => name),
  ...followNames,
  submitMethod,
]);

/** Submitting also needs `write: true`. */
export function isOverWebSocket(name: string): boolean {
  return namesOverWebSocket.has(name);
}
