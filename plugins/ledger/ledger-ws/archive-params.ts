import type { ArchiveRequest } from "sluice-gateway/services";
import { isAbsent, isObject } from "sluice-gateway/internal/toolkit";
import {
  InvalidParam,
  readChildTrie,
  readHash,
  readHex,
  readList,
  readStorageItem,
} from "./rpc-params.ts";

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
    if (start === undefined || start === null) return { key, type };
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
