import type { RecordedChain } from "./chain.ts";

/** twox128("System") ‖ twox128("Account"), the prefix of all keys of that map. */
const accountPrefix = "0x26aa394eea5630e07c48ae0c9558cef7b99d880ec681799c0cf30e8886371da9";

/**
 * Returns the nonce of an account id (64 hex digits) at a block, or 0 for an account that does not exist. A key of the
 * map ends with the account id itself, so its hash does not have to be computed. AccountInfo starts with the nonce, a
 * little-endian u32.
 */
export function nonceAt(chain: RecordedChain, accountId: string, number: number): number {
  const keys = chain.keysAt(accountPrefix, Infinity, undefined, number);
  const key = keys.find((each) => each.endsWith(accountId));
  const account = key === undefined ? null : chain.valueAt(key, number);
  return account === null ? 0 : Buffer.from(account.slice(2, 10), "hex").readUInt32LE();
}
