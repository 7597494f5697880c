/**
 * The nodes of tries that were read last, up to a number of bytes. A node is found by its hash, so it stays valid.
 * There are two generations: when the younger one is full, the older one is dropped. Nodes that are still read move on.
 */
import type { MemoryHold } from "sluice-gateway/plugin";

/** Memory of an entry in addition to the node: the name, its slot in the Map, and two objects. */
const entryBytes = 200;
/** Larger values are not kept. */
const maxNodeBytes = 65_536;

interface Generation {
  readonly nodes: Map<string, Uint8Array>;
  readonly held: MemoryHold;
}

export class KeptNodes {
  readonly #maxBytes: number;
  readonly #hold: (onRefused: () => void) => MemoryHold;
  #young: Generation;
  #old: Generation | undefined;

  /** `hold`: counts the memory of a generation. `onRefused`: see `Memory.hold`. */
  constructor(maxBytes: number, hold: (onRefused: () => void) => MemoryHold) {
    this.#maxBytes = maxBytes;
    this.#hold = hold;
    this.#young = this.#begin();
  }

  get(name: string): Uint8Array | undefined {
    return this.#young.nodes.get(name) ?? this.#old?.nodes.get(name);
  }

  /** Keeps a copy, because the bytes are often a slice of a larger buffer. */
  add(name: string, node: Uint8Array): void {
    if (node.length > maxNodeBytes || this.#young.nodes.has(name)) return;
    const bytes = node.length + entryBytes;
    if (this.#young.held.bytes + bytes > this.#maxBytes / 2) this.#age();
    const { nodes, held } = this.#young;
    if (held.resize(held.bytes + bytes)) nodes.set(name, new Uint8Array(node));
    else this.#age();
  }

  #age(): void {
    this.#old?.held[Symbol.dispose]();
    this.#old = this.#young;
    this.#young = this.#begin();
  }

  #begin(): Generation {
    const nodes = new Map<string, Uint8Array>();
    const held = this.#hold(() => {
      if (this.#young.nodes === nodes) this.#young = this.#begin();
      else this.#old = undefined;
    });
    return { nodes, held };
  }
}

/** Returns the hash as text that is short to compare. */
export function nameOf(hash: Uint8Array): string {
  // A spread takes ten times as long. The type of the function does not allow bytes, which are numbers.
  return String.fromCharCode.apply(undefined, hash as unknown as number[]);
}
