/** Decodes the 32-byte account id of an SS58 address. */
import { hash } from "node:crypto";

const alphabet = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";

/**
 * Returns the account id as hex without `0x`. Undefined if the text is not an SS58 address of a 32-byte account. Any
 * network prefix is accepted, as by a node. Checksum: the first two bytes of blake2b-512 over "SS58PRE", prefix and
 * account (docs.polkadot.com, "SS58").
 */
export function accountIdOf(address: string): string | undefined {
  // 32 bytes with a prefix of one or two bytes and a checksum of two bytes are at most 50 characters.
  if (address.length > 50) return undefined;
  let number = 0n;
  for (const character of address) {
    const digit = alphabet.indexOf(character);
    if (digit === -1) return undefined;
    number = number * 58n + BigInt(digit);
  }
  // A leading "1" is a leading zero byte, the prefix of Polkadot.
  const digits = number.toString(16);
  const zeros = /^1*/.exec(address)?.[0].length ?? 0;
  const bytes = Buffer.from(
    "00".repeat(zeros) +
      (digits === "0" ? "" : digits.padStart(digits.length + (digits.length % 2), "0")),
    "hex",
  );
  const prefixBytes = ((bytes[0] ?? 0) & 0b0100_0000) === 0 ? 1 : 2;
  if (bytes.length !== prefixBytes + 34) return undefined;
  const body = bytes.subarray(0, -2);
  const checksum = hash("blake2b512", Buffer.concat([Buffer.from("SS58PRE"), body]), "buffer");
  if (!checksum.subarray(0, 2).equals(bytes.subarray(-2))) return undefined;
  return body.subarray(prefixBytes).toString("hex");
}
