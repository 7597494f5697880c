/**
 * The subscriptions of the group `archive_v1`. Source: the JSON-RPC interface specification, and sc-rpc-spec-v2 of
 * polkadot-sdk for the second name of the method that stops a difference.
 */
import type { ArchiveMethod } from "sluice-gateway/services";
import type { PoolConfig } from "../options.ts";
import { createPricedMethods } from "../priced-methods.ts";

/** decisions.md section 14: an item costs what `chainHead_v1_storage` costs. */
const itemMilliCu = 500;
const openMilliCu = 1000;
const notificationMilliCu = 100;

export interface KnownArchiveMethod extends ArchiveMethod {
  /** The event that carries a result, and the one after the last result. */
  readonly events: readonly [string, string];
  /** Names of the method that stops it. Nodes that are built from polkadot-sdk know only the last one. */
  readonly stop: readonly [string, ...string[]];
}

const known: readonly KnownArchiveMethod[] = [
  {
    name: "archive_v1_storage",
    notification: "archive_v1_storageEvent",
    isPerItem: true,
    openMilliCu: itemMilliCu,
    notificationMilliCu,
    events: ["storage", "storageDone"],
    errorEvent: "storageError",
    stop: ["archive_v1_stopStorage"],
  },
  {
    name: "archive_v1_storageDiff",
    notification: "archive_v1_storageDiffEvent",
    isPerItem: false,
    openMilliCu,
    notificationMilliCu,
    events: ["storageDiff", "storageDiffDone"],
    errorEvent: "storageDiffError",
    stop: ["archive_v1_stopStorageDiff", "archive_v1_storageDiff_stopStorageDiff"],
  },
];

/** Such methods are not in the whitelist. */
export function isArchiveSubscription(name: string): boolean {
  return known.some((method) => method.name === name);
}

export interface ArchiveMethods {
  readonly methods: ReadonlyMap<string, KnownArchiveMethod>;
  readonly stopping: ReadonlyMap<string, KnownArchiveMethod>;
}

export function createArchiveMethods(changes: PoolConfig["methods"]): ArchiveMethods {
  const { methods, ending } = createPricedMethods(known, changes, ({ name, stop }) => ({
    opening: [name],
    ending: stop,
  }));
  return { methods, stopping: ending };
}
