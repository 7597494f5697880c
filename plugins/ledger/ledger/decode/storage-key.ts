/**
 * Computes storage keys: twox128(pallet prefix) ‖ twox128(entry) ‖ hashed keys (frame_support::storage, `StorageMap`).
 * xxHash64 is implemented here, and blake2b is from @noble/hashes, which is also the fallback of @polkadot/util-crypto.
 * The WebAssembly of that package would save 5 µs per key but cost every gateway 70 MiB or more (notes.md).
 */
import { blake2b } from "@noble/hashes/blake2.js";
import type { Hasher } from "./metadata.ts";

const mask = (1n << 64n) - 1n;
// XXH64's constants: github.com/Cyan4973/xxHash, doc/xxhash_spec.md.
const prime1 = 0x9e3779b185ebca87n;
const prime2 = 0xc2b2ae3d27d4eb4fn;
const prime3 = 0x165667b19e3779f9n;
const prime4 = 0x85ebca77c2b2ae63n;
const prime5 = 0x27d4eb2f165667c5n;

/** Returns the key of a plain value, or the prefix of a map. */
export function storagePrefix(pallet: string, entry: string): Buffer {
  return Buffer.concat([twox(Buffer.from(pallet), 2), twox(Buffer.from(entry), 2)]);
}

export function hashKey(hasher: Hasher, key: Uint8Array): Buffer {
  return hashers[hasher](key);
}

const hashers: Readonly<Record<Hasher, (key: Uint8Array) => Buffer>> = {
  blake2_128: (key) => Buffer.from(blake2b(key, { dkLen: 16 })),
  blake2_256: (key) => Buffer.from(blake2b(key, { dkLen: 32 })),
  blake2_128_concat: (key) => Buffer.concat([blake2b(key, { dkLen: 16 }), key]),
  twox_128: (key) => twox(key, 2),
  twox_256: (key) => twox(key, 4),
  twox_64_concat: (key) => Buffer.concat([twox(key, 1), key]),
  identity: (key) => Buffer.from(key),
};

/** Concatenates `words` XXH64 hashes with the seeds 0, 1, …, each little-endian. */
function twox(bytes: Uint8Array, words: number): Buffer {
  const out = Buffer.alloc(8 * words);
  const input = Buffer.from(bytes);
  for (let seed = 0; seed < words; seed++) {
    out.writeBigUInt64LE(xxh64(input, BigInt(seed)), 8 * seed);
  }
  return out;
}

const rotate = (value: bigint, by: bigint): bigint =>
  ((value << by) | (value >> (64n - by))) & mask;
const round = (lane: bigint, word: bigint): bigint =>
  (rotate((lane + word * prime2) & mask, 31n) * prime1) & mask;

function xxh64(input: Buffer, seed: bigint): bigint {
  let at = 0;
  let sum = (seed + prime5) & mask;
  if (input.length >= 32) {
    const lanes = [seed + prime1 + prime2, seed + prime2, seed, seed - prime1].map((n) => n & mask);
    for (; at + 32 <= input.length; at += 32) {
      for (const [i, lane] of lanes.entries()) {
        lanes[i] = round(lane, input.readBigUInt64LE(at + 8 * i));
      }
    }
    sum = lanes.reduce((total, lane, i) => total + rotate(lane, [1n, 7n, 12n, 18n][i] ?? 0n), 0n);
    for (const lane of lanes) sum = ((sum ^ round(0n, lane)) * prime1 + prime4) & mask;
  }
  return avalanche(tail(input, at, (sum + BigInt(input.length)) & mask));
}

function tail(input: Buffer, from: number, sum: bigint): bigint {
  let at = from;
  let value = sum;
  for (; at + 8 <= input.length; at += 8) {
    value = (rotate(value ^ round(0n, input.readBigUInt64LE(at)), 27n) * prime1 + prime4) & mask;
  }
  if (at + 4 <= input.length) {
    value =
      (rotate(value ^ ((BigInt(input.readUInt32LE(at)) * prime1) & mask), 23n) * prime2 + prime3) &
      mask;
    at += 4;
  }
  for (; at < input.length; at++) {
    value = (rotate(value ^ ((BigInt(input[at] ?? 0) * prime5) & mask), 11n) * prime1) & mask;
  }
  return value;
}

function avalanche(sum: bigint): bigint {
  let value = sum ^ (sum >> 33n);
  value = (value * prime2) & mask;
  value ^= value >> 29n;
  value = (value * prime3) & mask;
  return value ^ (value >> 32n);
}
