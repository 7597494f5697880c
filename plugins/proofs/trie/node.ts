/** Nodes of Substrate's trie with 16 children, in both layouts: sp-trie, `NodeCodec`. */
import { joinBytes, ScaleError, ScaleReader } from "../proofs/scale.ts";

export interface TrieNode {
  /** The part of the key that the node adds, one nibble per byte. */
  readonly nibbles: Uint8Array;
  readonly value: TrieValue | undefined;
  /** Hashes (32 bytes) or whole nodes (fewer bytes) of the children. Empty for a leaf. */
  readonly children: readonly (Uint8Array | undefined)[];
}

/** Layout V1 stores values of 33 bytes or more apart from the node, under their hash. */
export type TrieValue = { readonly inline: Uint8Array } | { readonly hash: Uint8Array };

export const hashBytes = 32;

export const emptyNode = Uint8Array.of(0);

/** The kinds of nodes, with the bits that a first byte begins with. */
const kinds = {
  leaf: { prefix: 0b0100_0000, bits: 6 },
  branch: { prefix: 0b1000_0000, bits: 6 },
  branchWithValue: { prefix: 0b1100_0000, bits: 6 },
  leafWithHash: { prefix: 0b0010_0000, bits: 5 },
  branchWithHash: { prefix: 0b0001_0000, bits: 4 },
} as const;

type Kind = keyof typeof kinds;

/** Undefined for the empty node. Throws a ScaleError if the bytes are not a node. */
export function readNode(bytes: Uint8Array): TrieNode | undefined {
  const reader = new ScaleReader(bytes);
  const first = reader.u8();
  if (first === 0) {
    if (reader.left > 0) throw new ScaleError("bytes after an empty node");
    return undefined;
  }
  const kind = kindOf(first);
  const nibbles = readNibbles(reader, readSize(reader, first, kinds[kind].bits));
  const isBranch = kind.startsWith("branch");
  const map = isBranch ? reader.u8() | (reader.u8() << 8) : 0;
  if (isBranch && map === 0) throw new ScaleError("a branch without children");
  const value = readValue(reader, kind);
  const children: (Uint8Array | undefined)[] = [];
  for (let bits = map; bits !== 0; bits >>= 1)
    children.push((bits & 1) === 1 ? readChild(reader) : undefined);
  if (reader.left > 0) throw new ScaleError("bytes after a node");
  return { nibbles, value, children };
}

function kindOf(first: number): Kind {
  if (first >= 0b1100_0000) return "branchWithValue";
  if (first >= 0b1000_0000) return "branch";
  if (first >= 0b0100_0000) return "leaf";
  if (first >= 0b0010_0000) return "leafWithHash";
  if (first >= 0b0001_0000) return "branchWithHash";
  throw new ScaleError("unknown kind of node");
}

/** `bits`: number of bits of the first byte that hold the number of nibbles. All of them set: more bytes follow. */
function readSize(reader: ScaleReader, first: number, bits: number): number {
  const max = 2 ** bits - 1;
  let size = first & max;
  if (size < max) return size;
  for (;;) {
    const more = reader.u8();
    size += more;
    if (more < 255) return size;
  }
}

function readNibbles(reader: ScaleReader, count: number): Uint8Array {
  const packed = nibblesOf(reader.take(Math.ceil(count / 2)));
  if (count % 2 === 0) return packed;
  if (packed[0] !== 0) throw new ScaleError("a padded nibble that is not 0");
  return packed.subarray(1);
}

function readValue(reader: ScaleReader, kind: Kind): TrieValue | undefined {
  if (kind === "branch") return undefined;
  return kind.endsWith("WithHash")
    ? { hash: reader.take(hashBytes) }
    : { inline: reader.prefixed() };
}

function readChild(reader: ScaleReader): Uint8Array {
  const child = reader.prefixed();
  if (child.length > hashBytes) throw new ScaleError("a child that is neither a hash nor a node");
  return child;
}

/** Returns the nibbles of bytes, one per byte. */
export function nibblesOf(bytes: Uint8Array): Uint8Array {
  const nibbles = new Uint8Array(bytes.length * 2);
  let at = 0;
  for (const byte of bytes) {
    nibbles[at++] = byte >> 4;
    nibbles[at++] = byte & 15;
  }
  return nibbles;
}

export function bytesOfNibbles(nibbles: Uint8Array): Uint8Array {
  return Uint8Array.from(
    { length: nibbles.length / 2 },
    (_, at) => ((nibbles[2 * at] ?? 0) << 4) | (nibbles[2 * at + 1] ?? 0),
  );
}

/** Returns the first bytes of a node: its kind, the number of its nibbles, and the nibbles. */
export function encodeStart(kind: Kind, nibbles: Uint8Array): Uint8Array {
  const { prefix, bits } = kinds[kind];
  const max = 2 ** bits - 1;
  const size: number[] = [prefix | Math.min(nibbles.length, max)];
  for (let rest = nibbles.length - max; rest >= 0; rest -= 255) size.push(Math.min(rest, 255));
  const padded = nibbles.length % 2 === 0 ? nibbles : Uint8Array.of(0, ...nibbles);
  return joinBytes(Uint8Array.from(size), bytesOfNibbles(padded));
}
