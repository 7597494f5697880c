import { compact, compareBytes, joinBytes } from "../proofs/scale.ts";
import { emptyNode, encodeStart, hashBytes, nibblesOf } from "./node.ts";
import { hashOf } from "./blake2.ts";

/** V1 stores values of 33 bytes or more under their hash. */
export type Layout = "V0" | "V1";

const maxInlineBytes = 32;

/** Returns the root of the trie that maps the positions of `values`, as compact integers, to them. */
export function orderedRoot(values: readonly Uint8Array[], layout: Layout): Uint8Array {
  return trieRoot(
    values.map((value, index) => [compact(index), value]),
    layout,
  );
}

/** `onNode`: called with every node and every value that is stored under its hash. */
export function trieRoot(
  entries: readonly (readonly [Uint8Array, Uint8Array])[],
  layout: Layout,
  onNode: (bytes: Uint8Array) => void = () => {},
): Uint8Array {
  const sorted = entries
    .map(([key, value]): Entry => ({ key: nibblesOf(key), value }))
    .toSorted((a, b) => compareBytes(a.key, b.key));
  const hashed = (bytes: Uint8Array): Uint8Array => {
    onNode(bytes);
    return hashOf(bytes);
  };
  return hashed(sorted.length === 0 ? emptyNode : encodeNode(sorted, 0, layout, hashed));
}

interface Entry {
  /** In nibbles. */
  readonly key: Uint8Array;
  readonly value: Uint8Array;
}

/** `entries`: not empty, sorted, with equal keys up to the nibble `from`, which is the first one of the node. */
function encodeNode(
  entries: readonly Entry[],
  from: number,
  layout: Layout,
  hashed: (bytes: Uint8Array) => Uint8Array,
): Uint8Array {
  const { key = new Uint8Array(0), value = key } = entries[0] ?? {};
  const last = entries.at(-1)?.key ?? key;
  let end = from;
  while (end < key.length && key[end] === last[end]) end++;
  const nibbles = key.subarray(from, end);
  const isHashed = layout === "V1" && value.length > maxInlineBytes;
  const hasValue = key.length === end;
  const encodeValue = (): Uint8Array => (isHashed ? hashed(value) : prefixed(value));
  if (entries.length === 1)
    return joinBytes(encodeStart(isHashed ? "leafWithHash" : "leaf", nibbles), encodeValue());
  const children = Map.groupBy(
    hasValue ? entries.slice(1) : entries,
    (entry) => entry.key[end] ?? 0,
  );
  const map = [...children.keys()].reduce((bits, nibble) => bits | (1 << nibble), 0);
  const references = Array.from(children.values(), (group) => {
    const child = encodeNode(group, end + 1, layout, hashed);
    return prefixed(child.length < hashBytes ? child : hashed(child));
  });
  const kind = !hasValue ? "branch" : isHashed ? "branchWithHash" : "branchWithValue";
  const own = hasValue ? [encodeValue()] : [];
  return joinBytes(encodeStart(kind, nibbles), Uint8Array.of(map, map >> 8), ...own, ...references);
}

function prefixed(bytes: Uint8Array): Uint8Array {
  return joinBytes(compact(bytes.length), bytes);
}
