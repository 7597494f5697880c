/**
 * Reads and writes account addresses. An SS58 address (docs.substrate.io, "SS58 address format") is the base58 of
 * prefix, account id and the first two bytes of blake2b-512("SS58PRE" ‖ prefix ‖ id). A prefix below 64 takes one byte,
 * a larger one takes two. Chains with 20-byte ids use Ethereum's format: `0x` and hex digits whose case is a checksum
 * (EIP-55).
 *
 * This does not use @polkadot/util-crypto, because that package takes 3.5 to 4.5 times as long, needs too much memory
 * to load (notes.md), and does not support 20-byte ids. The tests compare the results with it.
 */
import { hash } from "node:crypto";
import { keccak_256 } from "@noble/hashes/sha3.js";

const alphabet = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";
const digitOf = new Int8Array(128).fill(-1);
for (let i = 0; i < alphabet.length; i++) digitOf[alphabet.charCodeAt(i)] = i;

const context = Buffer.from("SS58PRE");
const checksumBytes = 2;
/** 2 bytes of prefix, 32 of id and 2 of checksum take at most 49 digits, and 13 limbs of 24 bits. */
const maxDigits = 49;
const limbs = new Int32Array(13);
/** 58⁵ */
const digitsOfGroup = 656_356_768;

/** Returns the account id of an address, 32 or 20 bytes. Undefined if it is not an address or its checksum is wrong. */
export function accountIdOf(address: string): Uint8Array | undefined {
  return address.startsWith("0x") ? hexId(address) : ss58Id(address);
}

/** Returns the address of an account id. `prefix`: 0 to 16383. 20-byte ids are written in Ethereum's format. */
export function addressOf(id: Uint8Array, prefix: number): string {
  if (id.length === 20) return checksummedHex(Buffer.from(id).toString("hex"));
  const head =
    prefix < 64
      ? [prefix]
      : [((prefix & 0b1111_1100) >> 2) | 0b0100_0000, (prefix >> 8) | ((prefix & 0b11) << 6)];
  const body = Buffer.concat([Buffer.from(head), id]);
  return toBase58(Buffer.concat([body, checksumOf(body)]));
}

function hexId(address: string): Uint8Array | undefined {
  const digits = address.slice(2);
  if (digits.length !== 40 && digits.length !== 64) return undefined;
  const id = Buffer.from(digits, "hex");
  if (id.length !== digits.length / 2) return undefined;
  const mixed = digits !== digits.toLowerCase() && digits !== digits.toUpperCase();
  if (id.length === 20 && mixed && checksummedHex(digits.toLowerCase()) !== address) {
    return undefined;
  }
  return id;
}

function ss58Id(address: string): Uint8Array | undefined {
  const decoded = fromBase58(address);
  if (decoded === undefined) return undefined;
  const first = decoded[0] ?? 0;
  const head = first < 64 ? 1 : 2;
  const bodyEnd = decoded.length - checksumBytes;
  const idBytes = bodyEnd - head;
  if (first >= 128 || (idBytes !== 32 && idBytes !== 20)) return undefined;
  // A prefix that fits one byte must not take two.
  if (head === 2 && prefixOf(first, decoded[1] ?? 0) < 64) return undefined;
  const checksum = checksumOf(decoded.subarray(0, bodyEnd));
  return checksum.equals(decoded.subarray(bodyEnd)) ? decoded.subarray(head, bodyEnd) : undefined;
}

function prefixOf(first: number, second: number): number {
  return ((first & 0b0011_1111) << 2) | (second >> 6) | ((second & 0b0011_1111) << 8);
}

function checksumOf(body: Uint8Array): Buffer {
  const whole = hash("blake2b512", Buffer.concat([context, body]), "buffer");
  return whole.subarray(0, checksumBytes);
}

function fromBase58(text: string): Buffer | undefined {
  if (text.length === 0 || text.length > maxDigits) return undefined;
  let used = 0;
  for (let i = 0; i < text.length; i++) {
    let carry = digitOf[text.charCodeAt(i)] ?? -1;
    if (carry < 0) return undefined;
    for (let k = 0; k < used; k++) {
      const sum = (limbs[k] ?? 0) * 58 + carry;
      limbs[k] = sum & 0xffffff;
      carry = sum >>> 24;
    }
    if (carry > 0) limbs[used++] = carry;
  }
  return fromLimbs(used, text.length - text.replace(/^1+/, "").length);
}

/** Returns the number in `limbs`, big-endian, after one zero byte per leading `1` of the text. */
function fromLimbs(used: number, zeros: number): Buffer {
  const bytes = Buffer.alloc(zeros + used * 3);
  for (let k = 0; k < used; k++) bytes.writeUIntBE(limbs[k] ?? 0, bytes.length - 3 * (k + 1), 3);
  let skip = zeros;
  while (skip < bytes.length && bytes[skip] === 0) skip++;
  return bytes.subarray(skip - zeros);
}

/** Uses groups of five digits, least significant first, and processes two bytes at a time. */
function toBase58(bytes: Buffer): string {
  const groups: number[] = [];
  for (let at = bytes.length % 2 === 0 ? 0 : -1; at < bytes.length; at += 2) {
    let carry = ((bytes[at] ?? 0) << 8) | (bytes[at + 1] ?? 0);
    for (let k = 0; k < groups.length; k++) {
      const sum = (groups[k] ?? 0) * 0x10000 + carry;
      carry = Math.floor(sum / digitsOfGroup);
      groups[k] = sum - carry * digitsOfGroup;
    }
    if (carry > 0) groups.push(carry);
  }
  let text = "";
  for (const group of groups) {
    let left = group;
    for (let digit = 0; digit < 5; digit++) {
      text = alphabet.charAt(left % 58) + text;
      left = Math.floor(left / 58);
    }
  }
  const zeros = bytes.findIndex((byte) => byte !== 0);
  return "1".repeat(Math.max(zeros, 0)) + text.replace(/^1+/, "");
}

/** EIP-55: a letter is upper case if the same digit of the keccak-256 of the lower-case text is 8 or more. */
function checksummedHex(lower: string): string {
  const digest = Buffer.from(keccak_256(Buffer.from(lower))).toString("hex");
  let text = "0x";
  for (let i = 0; i < lower.length; i++) {
    const char = lower.charAt(i);
    text += digest.charAt(i) >= "8" ? char.toUpperCase() : char;
  }
  return text;
}
