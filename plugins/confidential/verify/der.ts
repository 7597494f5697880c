/**
 * A strict reader of DER (X.690): lengths are definite and in their shortest form, and no bytes may remain. Input that
 * is not DER returns undefined and never throws, because certificates and revocation lists come from the party that is
 * being verified.
 */
import { toHex } from "./binary-text.ts";
import type { Bytes } from "./binary-text.ts";

export interface DerNode {
  /** The identifier octet: class, constructed bit and number. */
  readonly tag: number;
  /** Identifier, length and content. */
  readonly raw: Bytes;
  readonly content: Bytes;
  /** The members of a constructed value. Empty for a primitive value. */
  readonly children: readonly DerNode[];
}

export const derTags = {
  boolean: 0x01,
  integer: 0x02,
  bitString: 0x03,
  octetString: 0x04,
  objectId: 0x06,
  enumerated: 0x0a,
  ia5String: 0x16,
  utcTime: 0x17,
  generalizedTime: 0x18,
  sequence: 0x30,
  set: 0x31,
} as const;

/** Maximum nesting depth. Certificates nest about ten levels deep; deeper input could overflow the stack. */
const maxDepth = 24;

/** Reads bytes that are exactly one value. Undefined if they are not. */
export function readDer(bytes: Bytes): DerNode | undefined {
  const node = readAt(bytes, 0, 0);
  return node?.raw.length === bytes.length ? node : undefined;
}

/** Reads the value at `start`. Other bytes may follow it. */
function readAt(bytes: Bytes, start: number, depth: number): DerNode | undefined {
  const tag = bytes[start];
  // Tag numbers above 30 take more octets. Certificates do not use them.
  if (tag === undefined || (tag & 0x1f) === 0x1f || depth > maxDepth) return undefined;
  const size = readLength(bytes, start + 1);
  if (size === undefined) return undefined;
  const end = size.at + size.length;
  if (end > bytes.length) return undefined;
  const content = bytes.subarray(size.at, end);
  const children = (tag & 0x20) === 0 ? [] : readAll(content, depth + 1);
  if (children === undefined) return undefined;
  return { tag, raw: bytes.subarray(start, end), content, children };
}

function readAll(content: Bytes, depth: number): readonly DerNode[] | undefined {
  const nodes: DerNode[] = [];
  let at = 0;
  while (at < content.length) {
    const node = readAt(content, at, depth);
    if (node === undefined) return undefined;
    nodes.push(node);
    at += node.raw.length;
  }
  return nodes;
}

/** Reads the length at `at`. Returns it with the offset of the content. */
function readLength(bytes: Bytes, at: number): { length: number; at: number } | undefined {
  const first = bytes[at];
  if (first === undefined) return undefined;
  if (first < 0x80) return { length: first, at: at + 1 };
  const octets = first - 0x80;
  // 0x80 is the indefinite form, which DER forbids. Three octets allow 16 MiB.
  if (octets === 0 || octets > 3 || at + octets >= bytes.length) return undefined;
  let length = 0;
  for (const octet of bytes.subarray(at + 1, at + 1 + octets)) length = length * 256 + octet;
  const shortest = length >= 0x80 && length >= 2 ** (8 * (octets - 1));
  return shortest ? { length, at: at + 1 + octets } : undefined;
}

/** Returns the identifier in dotted decimal. Undefined unless the node is an OBJECT IDENTIFIER. */
export function derObjectId(node: DerNode | undefined): string | undefined {
  if (node?.tag !== derTags.objectId || node.content.length === 0) return undefined;
  const arcs: number[] = [];
  let arc = 0;
  for (const octet of node.content) {
    arc = arc * 128 + (octet & 0x7f);
    if (!Number.isSafeInteger(arc)) return undefined;
    if (octet >= 0x80) continue;
    if (arcs.length === 0) {
      const top = Math.min(2, Math.floor(arc / 40));
      arcs.push(top, arc - 40 * top);
    } else {
      arcs.push(arc);
    }
    arc = 0;
  }
  return (node.content.at(-1) ?? 0) < 0x80 ? arcs.join(".") : undefined;
}

/** Returns the two's complement octets of an INTEGER in hex, for comparing serial numbers. */
export function derIntegerHex(node: DerNode | undefined): string | undefined {
  if (node?.tag !== derTags.integer || node.content.length === 0) return undefined;
  const [first = 0, second = 0] = node.content;
  const padded = node.content.length > 1 && (first === 0 ? second < 0x80 : first === 0xff);
  return padded ? undefined : toHex(node.content);
}

/** Returns a non-negative INTEGER below 2^24. Undefined for any other value. */
export function derSmallInteger(node: DerNode | undefined): number | undefined {
  const hex = derIntegerHex(node);
  if (hex === undefined || hex.length > 8) return undefined;
  const value = Number.parseInt(hex, 16);
  return value < 2 ** 24 ? value : undefined;
}

/** Returns the octets of a BIT STRING that consists of whole octets. Undefined for any other value. */
export function derBitString(node: DerNode | undefined): Bytes | undefined {
  if (node?.tag !== derTags.bitString || node.content[0] !== 0) return undefined;
  return node.content.subarray(1);
}

/**
 * Returns a time in milliseconds since 1970. RFC 5280, 4.1.2.5: UTCTime until 2049, or GeneralizedTime; both in Zulu
 * and with seconds.
 */
export function derTime(node: DerNode | undefined): number | undefined {
  if (node === undefined) return undefined;
  const text = String.fromCharCode(...node.content.subarray(0, 16));
  const digits = node.tag === derTags.utcTime ? century(text) : text;
  if (node.tag !== derTags.utcTime && node.tag !== derTags.generalizedTime) return undefined;
  const parts = /^(\d{4})(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)Z$/.exec(digits);
  if (parts === null) return undefined;
  const [, year, month, day, hour, minute, second] = parts;
  const time = Date.parse(`${year}-${month}-${day}T${hour}:${minute}:${second}Z`);
  return Number.isNaN(time) ? undefined : time;
}

function century(text: string): string {
  return `${Number.parseInt(text.slice(0, 2), 10) < 50 ? "20" : "19"}${text}`;
}
