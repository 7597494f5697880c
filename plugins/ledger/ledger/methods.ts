/**
 * The table of known node methods: params, price, and how long an answer remains valid. The node proxy and the tools
 * share it; `whitelist.ts` derives a deployment's whitelist from it.
 *
 * Sources: gateway.md, "POST /v1/ledger/rpc", for names, params and prices; decisions.md section 5 for the other
 * whitelisted methods; the handlers of polkadot-sdk and midnight-node for the position of a block hash and what it
 * pins.
 */

/**
 * How long an answer remains valid.
 *
 * - `hash`: forever if the method's own block-hash param is given, because the state at a block cannot change.
 * - `block`: like `hash`, after that block is finalized (only then its justification is added).
 * - `height`: forever, after the requested block number is finalized.
 * - `constant`: while the nodes run the same chain, runtime and version. Only for calls without params.
 * - `moving`: the answer follows the chain. It is never cached; identical calls in flight may share one answer.
 * - `personal`: the answer depends on the transaction pool. It is neither cached nor shared.
 * - `write`: the call changes something. Its answer is neither cached nor shared, and it is never sent twice.
 */
export type Lifetime = "hash" | "block" | "height" | "constant" | "moving" | "personal" | "write";

export interface KnownMethod {
  /** Names of the params in order. `?` marks an optional param. */
  readonly params: readonly string[];
  readonly cuMilli: number;
  readonly lifetime: Lifetime;
  /**
   * 0-based index of the method's own block hash among its params. Present with lifetimes `hash` and `block`, and with
   * others if the call can only be answered by a node that has the block.
   */
  readonly hashParam?: number;
  /** True if the call costs the node almost nothing. */
  readonly cheap?: boolean;
  /** True if the method is disabled unless pipeline.yaml names it. */
  readonly optional?: boolean;
}

/** decisions.md section 5: the price of a method without one in the specification. */
const defaultMilliCu = 1000;

/** The safest assumptions, for a method that only pipeline.yaml names. */
export const unknownMethod: KnownMethod = {
  params: [],
  cuMilli: defaultMilliCu,
  lifetime: "write",
};

const tenth = { cuMilli: 100, cheap: true } as const;
const fifth = { cuMilli: 200, cheap: true } as const;

const atBlock = (...params: string[]): KnownMethod => ({
  params,
  cuMilli: defaultMilliCu,
  lifetime: "hash",
  hashParam: params.findIndex((name) => name.startsWith("blockHash")),
});

/** The answer follows the chain, or depends on more than the block (a Cardano follower, or the best authority set). */
const moving = (...params: string[]): KnownMethod => ({
  params,
  cuMilli: defaultMilliCu,
  lifetime: "moving",
});

const system: Record<string, KnownMethod> = {
  system_chain: { params: [], ...tenth, lifetime: "constant" },
  system_chainType: { params: [], ...tenth, lifetime: "constant" },
  system_name: { params: [], ...tenth, lifetime: "constant" },
  system_version: { params: [], ...tenth, lifetime: "constant" },
  // Not cheap: a chain may include its genesis in the properties (436 KB on Midnight).
  system_properties: { params: [], cuMilli: 100, lifetime: "constant" },
  system_accountNextIndex: { params: ["accountId"], cuMilli: 500, lifetime: "personal" },
  account_nextIndex: { params: ["accountId"], cuMilli: 500, lifetime: "personal" },
  system_dryRun: { params: ["hexExtrinsic"], cuMilli: 10_000, lifetime: "personal" },
  system_dryRunAt: {
    ...atBlock("hexExtrinsic", "blockHash"),
    cuMilli: 10_000,
    lifetime: "personal",
  },
  system_health: { params: [], ...tenth, lifetime: "moving", optional: true },
  system_syncState: { params: [], ...tenth, lifetime: "moving", optional: true },
};

const chain: Record<string, KnownMethod> = {
  chain_getBlock: { ...atBlock("blockHash?"), lifetime: "block" },
  chain_getBlockHash: { params: ["blockNumber?"], ...fifth, lifetime: "height" },
  chain_getHeader: { ...atBlock("blockHash?"), ...fifth },
  chain_getFinalizedHead: { params: [], ...tenth, lifetime: "moving" },
  chain_getHead: { params: [], ...tenth, lifetime: "moving" },
  chain_getRuntimeVersion: { ...atBlock("blockHash?"), ...fifth },
};

const keysPaged = atBlock("prefix", "count", "startKey?", "blockHash?");
const storage = atBlock("storageKey", "blockHash?");
const call = { ...atBlock("method", "data", "blockHash?"), cuMilli: 5000 };

const state: Record<string, KnownMethod> = {
  state_getMetadata: { ...atBlock("blockHash?"), cuMilli: 2000 },
  state_getRuntimeVersion: { ...atBlock("blockHash?"), ...fifth },
  state_getStorage: { ...storage, cuMilli: 500, cheap: true },
  state_getStorageAt: { ...storage, cuMilli: 500, cheap: true },
  state_getStorageHash: { ...storage, ...fifth },
  state_getStorageHashAt: { ...storage, ...fifth },
  state_getKeysPaged: keysPaged,
  state_getKeysPagedAt: keysPaged,
  state_queryStorageAt: { ...atBlock("keys[]", "blockHash?"), cuMilli: 1500 },
  // A range of blocks. Without the second hash, it ends at the head. The oldest block decides which nodes can answer.
  state_queryStorage: {
    ...moving("keys[]", "fromBlock", "toBlock?"),
    cuMilli: 1500,
    hashParam: 1,
  },
  state_call: call,
  state_callAt: call,
  state_getStorageSize: { ...storage, cuMilli: 200, optional: true },
  state_getReadProof: { ...atBlock("keys[]", "blockHash?"), optional: true, cheap: true },
  state_getChildReadProof: {
    ...atBlock("childStorageKey", "keys[]", "blockHash?"),
    optional: true,
  },
};

const child = atBlock("childStorageKey", "storageKey", "blockHash?");
const childKeys = atBlock("childStorageKey", "prefix", "count", "startKey?", "blockHash?");

const childstate: Record<string, KnownMethod> = {
  childstate_getStorage: child,
  childstate_getStorageHash: child,
  childstate_getStorageSize: child,
  childstate_getStorageEntries: atBlock("childStorageKey", "keys[]", "blockHash?"),
  childstate_getKeysPaged: childKeys,
  childstate_getKeysPagedAt: childKeys,
};

const consensus: Record<string, KnownMethod> = {
  author_pendingExtrinsics: { params: [], cuMilli: 1000, lifetime: "personal" },
  grandpa_roundState: moving(),
  grandpa_proveFinality: moving("blockNumber"),
  beefy_getFinalizedHead: moving(),
  mmr_root: atBlock("blockHash?"),
  mmr_generateProof: {
    ...moving("blockNumbers[]", "bestKnownBlockNumber?", "blockHash?"),
    hashParam: 2,
  },
  mmr_verifyProof: moving("proof"),
  mmr_verifyProofStateless: moving("mmrRoot", "proof"),
  sidechain_getParams: { params: [], cuMilli: defaultMilliCu, lifetime: "constant" },
  sidechain_getStatus: moving(),
  sidechain_getEpochCommittee: moving("epoch"),
  sidechain_getRegistrations: moving("mainchainEpoch", "mainchainPublicKey"),
  sidechain_getAriadneParameters: moving("epoch"),
};

/** A read has the same price as under its older name (decisions.md section 14). */
const archive: Record<string, KnownMethod> = {
  archive_v1_genesisHash: { params: [], cuMilli: defaultMilliCu, lifetime: "constant" },
  archive_v1_finalizedHeight: moving(),
  archive_v1_hashByHeight: { params: ["height"], cuMilli: defaultMilliCu, lifetime: "height" },
  archive_v1_header: { ...atBlock("blockHash"), cuMilli: 200 },
  archive_v1_body: atBlock("blockHash"),
  // The hash pins the answer, but failures are also results ({ success: false }) and must not be cached.
  archive_v1_call: {
    ...moving("blockHash", "function", "callParameters"),
    cuMilli: 5000,
    hashParam: 0,
  },
};

const chainSpec: Record<string, KnownMethod> = {
  chainSpec_v1_chainName: { params: [], cuMilli: defaultMilliCu, lifetime: "constant" },
  chainSpec_v1_genesisHash: { params: [], cuMilli: defaultMilliCu, lifetime: "constant" },
  chainSpec_v1_properties: { params: [], cuMilli: defaultMilliCu, lifetime: "constant" },
};

/** Methods of the chain itself. `upstreams.<name>.aliases` maps the prefix `ledger_` to the node's prefix. */
const ledger: Record<string, KnownMethod> = {
  ledger_apiVersions: { params: [], ...tenth, lifetime: "constant" },
  ledger_contractState: { ...atBlock("address", "blockHash?"), cuMilli: 2500 },
  // The node also accepts a hash, which the specification does not list.
  ledger_ledgerVersion: { params: [], ...tenth, lifetime: "hash", hashParam: 0 },
  ledger_zswapStateRoot: atBlock("blockHash?"),
  ledger_ledgerStateRoot: { ...atBlock("blockHash?"), optional: true },
};

export const knownMethods: ReadonlyMap<string, KnownMethod> = new Map(
  Object.entries({
    ...system,
    ...chain,
    ...state,
    ...childstate,
    ...consensus,
    ...archive,
    ...chainSpec,
    ...ledger,
    // The gateway answers this method itself: see `whitelist.ts`.
    rpc_methods: { params: [], ...tenth, lifetime: "constant" } satisfies KnownMethod,
  }),
);

/** Node names of methods that are aliases of another method. They take precedence over the prefix aliases. */
export const nodeNames: ReadonlyMap<string, string> = new Map([
  ["account_nextIndex", "system_accountNextIndex"],
]);

export const finalizedHeight = "archive_v1_finalizedHeight";

export function isFinalizedHead(name: string): boolean {
  return name === "chain_getFinalizedHead" || name === finalizedHeight;
}
