/** Reads the parameters of the methods that need the connection. They are given by position or by name. */
import type { ArchiveRequest, FollowOperation } from "sluice-gateway/services";
import { isAbsent, isObject, parseJson } from "sluice-gateway/internal/toolkit";
import { invalidParams, type CallReplies, type RpcCall } from "./call-replies.ts";

const names: Readonly<Record<string, readonly string[]>> = {
  chainHead_v1_follow: ["withRuntime"],
  chainHead_v1_unfollow: ["followSubscription"],
  chainHead_v1_header: ["followSubscription", "hash"],
  chainHead_v1_body: ["followSubscription", "hash"],
  chainHead_v1_call: ["followSubscription", "hash", "function", "callParameters"],
  chainHead_v1_storage: ["followSubscription", "hash", "items", "childTrie"],
  chainHead_v1_continue: ["followSubscription", "operationId"],
  chainHead_v1_stopOperation: ["followSubscription", "operationId"],
  chainHead_v1_unpin: ["followSubscription", "hashOrHashes"],
  archive_v1_storage: ["hash", "items", "childTrie"],
  archive_v1_stopStorage: ["subscription"],
  archive_v1_storageDiff: ["hash", "items", "previousHash"],
  archive_v1_stopStorageDiff: ["subscription"],
  archive_v1_storageDiff_stopStorageDiff: ["subscription"],
  author_submitAndWatchExtrinsic: ["bytes"],
  author_unwatchExtrinsic: ["subscription"],
  transactionWatch_v1_submitAndWatch: ["transaction"],
  transactionWatch_v1_unwatch: ["subscription"],
  transaction_v1_broadcast: ["transaction"],
  transaction_v1_stop: ["operationId"],
};

const storageTypes: ReadonlySet<unknown> = new Set([
  "value",
  "hash",
  "closestDescendantMerkleValue",
  "descendantsValues",
  "descendantsHashes",
]);

interface StorageItem {
  readonly key: string;
  readonly type: string;
}

class InvalidParam extends Error {}

/** Refuses the call if `run` throws an `InvalidParam`. Rejects with any other exception. */
export async function answerParams(
  call: RpcCall,
  replies: CallReplies,
  run: (params: readonly unknown[]) => void | Promise<void>,
): Promise<void> {
  try {
    await run(readParams(call.method, call.params));
  } catch (error) {
    if (!(error instanceof InvalidParam)) throw error;
    replies.refuse(call, { code: "INVALID_PARAMS", error: invalidParams(error.message) });
  }
}

/** Returns the parameters in order; missing ones are undefined. `params`: valid JSON text, or empty. */
function readParams(method: string, params: string): readonly unknown[] {
  const expected = names[method] ?? [];
  const value = params === "" ? [] : parseJson(params);
  if (isObject(value)) return expected.map((name) => value[name]);
  const list: readonly unknown[] = Array.isArray(value) ? value : [];
  if (list.length > expected.length) throw new InvalidParam("too many parameters");
  return list;
}

export function readText(value: unknown, name: string): string {
  if (typeof value !== "string") throw new InvalidParam(`${name}: expected a string`);
  return value;
}

export function readBoolean(value: unknown, name: string): boolean {
  if (typeof value !== "boolean") throw new InvalidParam(`${name}: expected a boolean`);
  return value;
}

export function readHash(value: unknown, name: string): string {
  const hash = readHex(value, name);
  if (hash.length > 130) throw new InvalidParam(`${name}: expected a hash`);
  return hash;
}

export function readHashes(value: unknown, name: string): readonly string[] {
  return Array.isArray(value)
    ? (value as readonly unknown[]).map((each) => readHash(each, name))
    : [readHash(value, name)];
}

/** Returns hexadecimal with 0x, in lower case. The specification allows the empty string for no bytes. */
export function readHex(value: unknown, name: string): string {
  if (value === "") return "0x";
  if (typeof value !== "string" || !/^0x(?:[0-9a-f]{2})*$/i.test(value)) {
    throw new InvalidParam(`${name}: expected a hexadecimal string with 0x`);
  }
  return value.toLowerCase();
}

export function readOperation(
  method: string,
  hash: string,
  params: readonly unknown[],
): readonly FollowOperation[] {
  if (method === "chainHead_v1_body") return [{ kind: "body", hash }];
  if (method === "chainHead_v1_call") {
    const name = readText(params[2], "function");
    return [
      { kind: "call", hash, function: name, parameters: readHex(params[3], "callParameters") },
    ];
  }
  const childTrie = readChildTrie(params[3]);
  const items = readList(params[2], "items").map(readStorageItem);
  return items.map((item) => ({ kind: "storage", hash, childTrie, ...item }));
}

function readList(value: unknown, name: string): readonly unknown[] {
  if (!Array.isArray(value) || value.length === 0) {
    throw new InvalidParam(`${name}: expected a list with at least one item`);
  }
  return value as readonly unknown[];
}

function readStorageItem(item: unknown): StorageItem {
  const { key, type } = isObject(item) ? item : {};
  if (!storageTypes.has(type)) {
    throw new InvalidParam(`items: expected a type of ${[...storageTypes].join(", ")}`);
  }
  return { key: readHex(key, "items: key"), type: String(type) };
}

/** Null for the main trie. */
function readChildTrie(value: unknown): string | null {
  return isAbsent(value) ? null : readHex(value, "childTrie");
}

/** Maximum number of items of an archive read. */
const maxItems = 1024;

/** Returns the request for the node, which contains only what the specification defines. */
export function readArchiveRequest(method: string, params: readonly unknown[]): ArchiveRequest {
  const hash = readHash(params[0], "hash");
  return method === "archive_v1_storage" ? storageRequest(hash, params) : diffRequest(hash, params);
}

function storageRequest(hash: string, [, items, childTrie]: readonly unknown[]): ArchiveRequest {
  const read = readItems(items).map((item) => {
    const { paginationStartKey: start } = isObject(item) ? item : {};
    const { key, type } = readStorageItem(item);
    if (isAbsent(start)) return { key, type };
    if (!type.startsWith("descendants")) {
      throw new InvalidParam("items: paginationStartKey is only valid for descendants");
    }
    return { key, type, paginationStartKey: readHex(start, "items: paginationStartKey") };
  });
  const params = JSON.stringify([hash, read, readChildTrie(childTrie)]);
  return { hash, items: read.length, params };
}

function diffRequest(hash: string, [, items, previous]: readonly unknown[]): ArchiveRequest {
  const read = isAbsent(items) ? wholeTrie : readItems(items).map(readDiffItem);
  const from = isAbsent(previous) ? null : readHash(previous, "previousHash");
  return { hash, items: read.length, params: JSON.stringify([hash, read, from]) };
}

/** The specification allows a call without items, but nodes that are built from polkadot-sdk require them. */
const wholeTrie = [{ key: "0x", returnType: "value" }] as const;

function readDiffItem(item: unknown): object {
  const { key, returnType, childTrieKey } = isObject(item) ? item : {};
  if (returnType !== "value" && returnType !== "hash") {
    throw new InvalidParam("items: expected a returnType of value, hash");
  }
  return {
    key: isAbsent(key) ? "0x" : readHex(key, "items: key"),
    returnType,
    ...(!isAbsent(childTrieKey) && {
      childTrieKey: readHex(childTrieKey, "items: childTrieKey"),
    }),
  };
}

function readItems(value: unknown): readonly unknown[] {
  const items = readList(value, "items");
  if (items.length > maxItems) {
    throw new InvalidParam(`items: expected at most ${maxItems} items, got ${items.length}`);
  }
  return items;
}
