/**
 * Reports the heads of subscriptions to the pool. A head is a header without the hash of its block. The hash is computed
 * as most chains do: BLAKE2b-256 of the header in SCALE (`sp_runtime::generic::Header`). A chain with another hasher has
 * other hashes. Then no client reads at the computed one, so that nothing is gained or lost.
 */
import { blake2b } from "@noble/hashes/blake2.js";
import { isObject } from "sluice-gateway/toolkit";
import { numberOfHeader } from "../finality.ts";
import { parseOrUndefined } from "../json-part.ts";
import type { Announcements } from "../node-pool.ts";

/** The digest of a usual header has less than 1 KiB. Larger headers are not hashed. */
const maxHeaderChars = 65_536;
const hashForm = /^0x[0-9a-f]{64}$/i;
const bytesForm = /^0x(?:[0-9a-f]{2})*$/i;

/** `node`: label of the node that has sent the head. `head`: JSON text of the header. */
export function announceHead(
  announcements: Announcements,
  node: string,
  head: string,
  isFinalized: boolean,
): void {
  const hash = hashOfHeader(head);
  if (hash !== undefined) announcements.announcedBlocks(node, [hash]);
  const number = numberOfHeader(head);
  if (isFinalized && number !== undefined) announcements.announcedFinalized(node, number);
}

/** Returns the hash in hexadecimal. Undefined if the JSON text is not a header. */
export function hashOfHeader(text: string): string | undefined {
  const number = numberOfHeader(text);
  const header = text.length <= maxHeaderChars ? parseOrUndefined(text) : undefined;
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
