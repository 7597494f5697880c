/** The nonce of an account, read from the recorded state. */
import type { Chain } from "./chain.ts";

/** twox128("System") ‖ twox128("Account"): what every key of that map begins with. */
const accountPrefix = "0x26aa394eea5630e07c48ae0c9558cef7b99d880ec681799c0cf30e8886371da9";

/**
 * The nonce of an account id (64 hex digits) at a block, 0 for an account that does not exist. A key of the map ends
 * with the account id itself, after its hash, so none has to be computed. AccountInfo begins with the nonce, a
 * little-endian u32.
 */
export function nonceAt(chain: Chain, accountId: string, number: number): number {
  const keys = chain.keysAt(accountPrefix, Infinity, undefined, number);
  const key = keys.find((each) => each.endsWith(accountId));
  const account = key === undefined ? null : chain.valueAt(key, number);
  return account === null ? 0 : Buffer.from(account.slice(2, 10), "hex").readUInt32LE();
}
