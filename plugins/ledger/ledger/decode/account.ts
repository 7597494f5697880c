/**
 * Decodes accounts by the type of System.Account in the metadata: AccountInfo with `misc_frozen` and `fee_frozen`, or
 * with `frozen` and `flags` (`frozen` is then reported in both fields), or without balances.
 */
import { isObject } from "sluice-gateway/internal/toolkit";
import { hexBytes } from "./hex.ts";
import type { Runtime } from "./runtime.ts";
import { hashKey, storagePrefix } from "./storage-key.ts";
import { ValueReader } from "./value.ts";

/** The prefix of almost every chain, computed once. */
const usualPrefix = storagePrefix("System", "Account");

/**
 * Returns the storage key of an account, `0x…`. Undefined if account ids of this chain have another length. Null for a
 * runtime without accounts.
 */
export function accountKey(runtime: Runtime, id: Uint8Array): string | undefined | null {
  const found = runtime.storage("System", "Account");
  const [hasher, more] = found?.entry.hashers ?? [];
  if (found?.entry.key === undefined || hasher === undefined || more !== undefined) return null;
  if (runtime.shapes.width(found.entry.key) !== id.length) return undefined;
  const { storagePrefix: pallet = "System" } = found.pallet;
  const prefix = pallet === "System" ? usualPrefix : storagePrefix(pallet, "Account");
  return `0x${Buffer.concat([prefix, hashKey(hasher, id)]).toString("hex")}`;
}

/** `hex`: the storage value, undefined if there is none. Returns undefined if the bytes are not an account. */
export function accountJson(runtime: Runtime, hex: string | undefined): string | undefined {
  if (hex === undefined) return infoJson({});
  const found = runtime.storage("System", "Account");
  const bytes = hex.startsWith("0x") ? hexBytes(hex, 2, hex.length) : undefined;
  if (found === undefined || bytes === undefined) return undefined;
  const reader = new ValueReader(runtime, bytes, 0, 0);
  const info = reader.read(found.entry.value);
  return reader.complete && isObject(info) ? infoJson(info) : undefined;
}

function infoJson(info: Record<string, unknown>): string {
  const data = isObject(info.data) ? info.data : {};
  const frozen = data.frozen;
  const counts = ["nonce", "consumers", "providers", "sufficients"].map(
    (name) => `"${name}":${integer(info[name])}`,
  );
  const miscFrozen = data.misc_frozen ?? data.miscFrozen ?? frozen;
  const feeFrozen = data.fee_frozen ?? data.feeFrozen ?? frozen;
  return (
    `{${counts.join(",")},"data":{"free":"${integer(data.free)}","reserved":"${integer(data.reserved)}",` +
    `"miscFrozen":"${integer(miscFrozen)}","feeFrozen":"${integer(feeFrozen)}"}}`
  );
}

/** Returns the digits of an integer, or 0 for a field that accounts of this runtime do not have. */
function integer(value: unknown): string {
  return typeof value === "string" && /^\d+$/.test(value) ? value : "0";
}
