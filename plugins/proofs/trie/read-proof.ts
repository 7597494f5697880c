import { compareBytes, joinBytes, ScaleError } from "../proofs/scale.ts";
import { hashOf } from "./blake2.ts";
import { nameOf, type KeptNodes } from "./kept-nodes.ts";
import {
  bytesOfNibbles,
  emptyNode,
  hashBytes,
  nibblesOf,
  readNode,
  type TrieNode,
} from "./node.ts";

export class ProofError extends Error {}

/** Most first reads of a path end with this error, so it has no stack of its own. */
const missing = new ProofError("a node of the trie is missing");

export interface KeyRange {
  readonly prefix: Uint8Array;
  /** The keys after this one are returned. Undefined for all. */
  readonly after?: Uint8Array | undefined;
  readonly limit: number;
}

/** Maximum number of nodes between the root and a value. */
const maxDepth = 512;

/** In the main trie, the keys of the roots of child tries begin with this. */
export const childTries = new TextEncoder().encode(":child_storage:default:");

const emptyName = nameOf(hashOf(emptyNode));

export class TrieProof {
  readonly used = new Map<string, Uint8Array>();
  readonly #kept: KeptNodes | undefined;
  readonly #nodes = new Map<string, Uint8Array>([[emptyName, emptyNode]]);
  readonly #unhashed: Uint8Array[];

  /** `nodes`: in any order. `kept`: nodes that are known already. */
  constructor(nodes: readonly Uint8Array[], kept?: KeptNodes) {
    this.#unhashed = [...nodes];
    this.#kept = kept;
  }

  /** Returns null if the trie does not contain the key. Throws a ProofError if the nodes do not prove either. */
  value(root: Uint8Array, key: Uint8Array): Uint8Array | null {
    const wanted = nibblesOf(key);
    let node = this.#node(root);
    for (let at = 0; node !== undefined;) {
      const end = at + node.nibbles.length;
      if (!equal(node.nibbles, wanted.subarray(at, end))) return null;
      const nibble = wanted[end];
      if (nibble === undefined) {
        const { value } = node;
        if (value === undefined) return null;
        return "inline" in value ? value.inline : this.#bytes(value.hash);
      }
      const child = node.children[nibble];
      node = child && this.#node(child);
      at = end + 1;
    }
    return null;
  }

  /** The keys are in order and without a gap. Throws a ProofError if the nodes do not prove that these are all. */
  keys(root: Uint8Array, { prefix, after, limit }: KeyRange): Uint8Array[] {
    const wanted = nibblesOf(prefix);
    const last = after && nibblesOf(after);
    const found: Uint8Array[] = [];
    const visit = (reference: Uint8Array, start: Uint8Array, depth: number): void => {
      if (depth > maxDepth) throw new ProofError("the trie is too deep");
      const node = this.#node(reference);
      if (node === undefined) return;
      const path = joinBytes(start, node.nibbles);
      if (!mayContain(path, wanted, last)) return;
      const isKey = node.value !== undefined && path.length >= wanted.length;
      if (isKey && (last === undefined || compareBytes(path, last) > 0)) {
        if (path.length % 2 === 1) throw new ProofError("a key with half a byte");
        found.push(bytesOfNibbles(path));
      }
      for (const [nibble, child] of node.children.entries()) {
        if (found.length >= limit) return;
        const next = joinBytes(path, Uint8Array.of(nibble));
        if (child !== undefined && mayContain(next, wanted, last)) visit(child, next, depth + 1);
      }
    };
    if (limit > 0) visit(root, new Uint8Array(0), 0);
    return found;
  }

  /** Undefined for the empty node. `reference`: a hash, or the bytes of a node. */
  #node(reference: Uint8Array): TrieNode | undefined {
    try {
      return readNode(reference.length === hashBytes ? this.#bytes(reference) : reference);
    } catch (error) {
      if (error instanceof ScaleError) throw new ProofError(`no node of a trie: ${error.message}`);
      throw error;
    }
  }

  #bytes(hash: Uint8Array): Uint8Array {
    const name = nameOf(hash);
    const bytes = this.#kept?.get(name) ?? this.#nodes.get(name) ?? this.#find(name);
    if (bytes === undefined) throw missing;
    this.used.set(name, bytes);
    return bytes;
  }

  #find(name: string): Uint8Array | undefined {
    for (let node = this.#unhashed.pop(); node !== undefined; node = this.#unhashed.pop()) {
      const found = nameOf(hashOf(node));
      this.#nodes.set(found, node);
      if (found === name) return node;
    }
    return undefined;
  }
}

/** Returns true if a key that begins with `path` can begin with `prefix` and come after `after`. All in nibbles. */
function mayContain(path: Uint8Array, prefix: Uint8Array, after: Uint8Array | undefined): boolean {
  const common = Math.min(path.length, prefix.length);
  if (!equal(path.subarray(0, common), prefix.subarray(0, common))) return false;
  return after === undefined || compareBytes(path, after.subarray(0, path.length)) >= 0;
}

function equal(a: Uint8Array, b: Uint8Array): boolean {
  return compareBytes(a, b) === 0;
}
