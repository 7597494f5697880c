/**
 * The methods of the demo node that send notifications: the older subscriptions and `chainHead_v1_*`. The head never
 * moves, so a subscriber gets only the first notifications.
 */
import { randomBytes } from "node:crypto";
import { isObject } from "sluice-gateway/internal/toolkit";
import type { RecordedChain } from "./chain.ts";
import {
  RpcFailure,
  invalidParams,
  readHash,
  readHex,
  readList,
  readText,
  type Method,
  type Methods,
  type Notify,
} from "./method.ts";
import type { RecordedBlock } from "./recording.ts";

/** The notification, and the method that returns its result. */
const headOf = (notification: string) => [notification, "chain_getHeader"] as const;
const version = ["state_runtimeVersion", "state_getRuntimeVersion"] as const;

const kinds = {
  chain_subscribeNewHeads: headOf("chain_newHead"),
  chain_subscribeNewHead: headOf("chain_newHead"),
  chain_subscribeAllHeads: headOf("chain_allHead"),
  chain_subscribeFinalizedHeads: headOf("chain_finalizedHead"),
  state_subscribeRuntimeVersion: version,
  chain_subscribeRuntimeVersion: version,
  state_subscribeStorage: ["state_storage", "state_queryStorageAt"],
} as const;

export function subscriptionMethods(methods: ReadonlyMap<string, Method>, notify: Notify): Methods {
  const open = new Set<unknown>();
  const all: Record<string, Method> = {};
  for (const [name, [notification, value]] of Object.entries(kinds)) {
    all[name] = {
      params: ["keys"],
      run(keys) {
        const result = methods.get(value)?.run(keys);
        const id = randomBytes(8).toString("hex");
        open.add(id);
        // `state_queryStorageAt` returns a list with one change set.
        notify(notification, id, Array.isArray(result) ? result[0] : result);
        return id;
      },
    };
    all[name.replace("subscribe", "unsubscribe")] = {
      params: ["subscription"],
      run: (id) => open.delete(id),
    };
  }
  return all;
}

/** The last blocks, which a follow reports as finalized. */
const finalizedBlocks = 4;
/** Maximum number of descendants in one event. */
const pageKeys = 1_000;

const limitReached = { result: "limitReached" };
const notPinned = (): RpcFailure => new RpcFailure(-32801, "Invalid block hash");

export function chainHeadMethods(
  chain: RecordedChain,
  methods: ReadonlyMap<string, Method>,
  notify: Notify,
): Methods {
  /** The hashes of the blocks that are pinned, by follow. */
  const follows = new Map<string, Set<string>>();
  let lastOperation = 0;
  const emit = (follow: string, event: object): void =>
    notify("chainHead_v1_followEvent", follow, event);
  const idOf = (follow: unknown): string => readText(follow, "followSubscription");
  const pinnedBlock = (pinned: ReadonlySet<string>, value: unknown): RecordedBlock => {
    const hash = readHash(value, "hash");
    const number = pinned.has(hash) ? chain.numberOf(hash) : undefined;
    if (number === undefined) throw notPinned();
    return chain.block(number);
  };
  const operation = (
    params: readonly string[],
    eventsOf: (block: RecordedBlock, ...params: readonly unknown[]) => readonly object[],
    answer: object = {},
  ): Method => ({
    params: ["followSubscription", "hash", ...params],
    run(follow, hash, ...rest) {
      const id = idOf(follow);
      const pinned = follows.get(id);
      if (pinned === undefined) return limitReached;
      const events = eventsOf(pinnedBlock(pinned, hash), ...rest);
      const operationId = String(++lastOperation);
      for (const event of events) emit(id, { ...event, operationId });
      return { result: "started", operationId, ...answer };
    },
  });
  const ofOperation: Method = {
    params: ["followSubscription", "operationId"],
    run: (follow) => void idOf(follow),
  };
  return {
    chainHead_v1_follow: {
      params: ["withRuntime"],
      run(withRuntime) {
        if (typeof withRuntime !== "boolean")
          throw invalidParams("withRuntime: expected a boolean");
        const id = randomBytes(8).toString("hex");
        const { initialized, best } = firstEvents(chain, withRuntime);
        follows.set(id, new Set(initialized.finalizedBlockHashes));
        emit(id, initialized);
        emit(id, best);
        return id;
      },
    },
    chainHead_v1_unfollow: {
      params: ["followSubscription"],
      run: (follow) => void follows.delete(idOf(follow)),
    },
    chainHead_v1_unpin: {
      params: ["followSubscription", "hashOrHashes"],
      run(follow, hashes) {
        const pinned = follows.get(idOf(follow));
        if (pinned !== undefined) unpin(pinned, hashes);
      },
    },
    chainHead_v1_continue: ofOperation,
    chainHead_v1_stopOperation: ofOperation,
    chainHead_v1_header: {
      params: ["followSubscription", "hash"],
      run(follow, hash) {
        const pinned = follows.get(idOf(follow));
        return pinned && encodeHeader(pinnedBlock(pinned, hash));
      },
    },
    chainHead_v1_body: operation([], ({ extrinsics }) => [
      { event: "operationBodyDone", value: extrinsics },
    ]),
    chainHead_v1_call: operation(["function", "callParameters"], ({ hash }, name, parameters) => {
      const call = readText(name, "function");
      const bytes = parameters === "" ? "0x" : readHex(parameters, "callParameters");
      try {
        const output = methods.get("state_call")?.run(call, bytes, hash);
        return [{ event: "operationCallDone", output }];
      } catch (error) {
        if (!(error instanceof RpcFailure)) throw error;
        return [{ event: "operationError", error: error.message }];
      }
    }),
    chainHead_v1_storage: operation(
      ["items", "childTrie"],
      (block, items) => storageEvents(chain, block, items),
      { discardedItems: 0 },
    ),
  };
}

function firstEvents(chain: RecordedChain, withRuntime: boolean) {
  const { head, recording } = chain;
  const finalizedBlockHashes = recording.blocks.slice(-finalizedBlocks).map(({ hash }) => hash);
  const { runtimeVersion } = recording;
  const spec = {
    ...runtimeVersion,
    apis: Object.fromEntries(runtimeVersion["apis"] as [string, number][]),
  };
  return {
    initialized: {
      event: "initialized",
      finalizedBlockHashes,
      ...(withRuntime && { finalizedBlockRuntime: { type: "valid", spec } }),
    },
    best: { event: "bestBlockChanged", bestBlockHash: chain.block(head).hash },
  };
}

function storageEvents(
  chain: RecordedChain,
  { hash }: RecordedBlock,
  items: unknown,
): readonly object[] {
  const number = chain.numberOf(hash) ?? 0;
  const found: object[] = [];
  for (const item of readList(items, "items")) {
    const { key: wanted, type } = isObject(item) ? item : {};
    const key = readHex(wanted, "key");
    const isDescendants = type === "descendantsValues" || type === "descendantsHashes";
    const keys = isDescendants ? chain.keysAt(key, Infinity, undefined, number) : [key];
    const isHash = type === "hash" || type === "descendantsHashes";
    for (const each of keys) {
      const value = isHash ? chain.digestAt(each, number)?.hash : chain.valueAt(each, number);
      if (typeof value === "string") found.push({ key: each, [isHash ? "hash" : "value"]: value });
    }
  }
  const pages: object[] = [];
  for (let at = 0; at < found.length; at += pageKeys) {
    pages.push({ event: "operationStorageItems", items: found.slice(at, at + pageKeys) });
  }
  return [...pages, { event: "operationStorageDone" }];
}

function unpin(pinned: Set<string>, value: unknown): void {
  const list: readonly unknown[] = Array.isArray(value) ? value : [value];
  const hashes = list.map((each) => readHash(each, "hashOrHashes"));
  if (!hashes.every((hash) => pinned.has(hash))) throw notPinned();
  for (const hash of hashes) pinned.delete(hash);
}

/** Returns the SCALE-encoded header in hexadecimal. The logs of the digest are encoded already. */
function encodeHeader({ header }: RecordedBlock): string {
  const { parentHash, number, stateRoot, extrinsicsRoot, digest } = header;
  const bytes = (hex: string): string => hex.slice(2);
  const logs = digest.logs.map(bytes).join("");
  return `0x${bytes(parentHash)}${compact(Number(number))}${bytes(stateRoot)}${bytes(extrinsicsRoot)}${compact(digest.logs.length)}${logs}`;
}

/** SCALE's compact encoding of a number below 64, in hexadecimal. The recording has nine blocks. */
function compact(number: number): string {
  return (number << 2).toString(16).padStart(2, "0");
}
