/**
 * Reports the heads of subscriptions to the pool. A head is a header without the hash of its block. The hash is computed
 * as most chains do: BLAKE2b-256 of the header in SCALE (`sp_runtime::generic::Header`). On a chain with another hasher,
 * the computed hash matches no block and is never used.
 */
import { blake2b } from "@noble/hashes/blake2.js";
import { isObject } from "sluice-gateway/toolkit";
import { parseOrUndefined } from "../json-part.ts";
import type { Announcements } from "../node-pool.ts";
import { blockNumber } from "../pool/probe.ts";

/** The digest of a usual header has less than 1 KiB. Larger headers are not hashed. */
const maxHeaderChars = 65_536;
const hashForm = /^0x[0-9a-f]{64}$/i;
const bytesForm = /^0x(?:[0-9a-f]{2})*$/i;

/**
 * `node`: label of the node that has sent the head. `head`: JSON text of the header. Returns the number of the block, or
 * undefined if this is not a header.
 */
export function announceHead(
  announcements: Announcements,
  node: string,
  head: string,
  isFinalized: boolean,
): number | undefined {
  const header = parseOrUndefined(head);
  const hash = head.length <= maxHeaderChars ? hashOfHeader(header) : undefined;
  if (hash !== undefined) announcements.announcedBlocks(node, [hash]);
  const number = blockNumber(header);
  if (isFinalized && number !== undefined) announcements.announcedFinalized(node, number);
  return number;
}

/** Returns the number of a header, which is JSON text. Undefined if it has none. */
export function numberOfHeader(head: string): number | undefined {
  return blockNumber(parseOrUndefined(head));
}

/** Returns the hash of a block in hexadecimal. Undefined if this is not a header. */
export function hashOfHeader(header: unknown): string | undefined {
  const number = blockNumber(header);
  if (!isObject(header) || number === undefined || number >= 2 ** 32) return undefined;
  const { parentHash, stateRoot, extrinsicsRoot, digest } = header;
  const logs: unknown = isObject(digest) ? digest["logs"] : undefined;
  if (!isText(parentHash, hashForm)) return undefined;
  if (!isText(stateRoot, hashForm) || !isText(extrinsicsRoot, hashForm)) return undefined;
  if (!Array.isArray(logs)) return undefined;
  const items: readonly unknown[] = logs;
  if (!items.every((item) => isText(item, bytesForm))) return undefined;
  const bytes = Buffer.concat([
    bytesOf(parentHash),
    compact(number),
    bytesOf(stateRoot),
    bytesOf(extrinsicsRoot),
    compact(items.length),
    ...items.map(bytesOf),
  ]);
  return `0x${Buffer.from(blake2b(bytes, { dkLen: 32 })).toString("hex")}`;
}

function isText(value: unknown, form: RegExp): value is string {
  return typeof value === "string" && form.test(value);
}

function bytesOf(hex: string): Buffer {
  return Buffer.from(hex.slice(2), "hex");
}

/** Encodes an integer below 2^32 as a SCALE compact integer, whose lowest two bits are its width. */
function compact(value: number): Buffer {
  const bytes = Buffer.alloc(5);
  if (value < 2 ** 6) return bytes.subarray(0, bytes.writeUInt8(value * 4));
  if (value < 2 ** 14) return bytes.subarray(0, bytes.writeUInt16LE(value * 4 + 1));
  if (value < 2 ** 30) return bytes.subarray(0, bytes.writeUInt32LE(value * 4 + 2));
  bytes.writeUInt8(3);
  bytes.writeUInt32LE(value, 1);
  return bytes;
}
