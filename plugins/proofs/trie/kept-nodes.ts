/** The nodes of tries that were read last, up to a number of bytes. A node is found by its hash, so it stays valid. */

/** Memory of an entry in addition to the node: the name, its slot in the Map, and two objects. */
const entryBytes = 200;
/** Larger values are not kept. */
const maxNodeBytes = 65_536;

export class KeptNodes {
  bytes = 0;
  readonly #maxBytes: number;
  /** The node that was added first is first. */
  readonly #nodes = new Map<string, Uint8Array>();

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** `name`: see `nameOf`. */
  get(name: string): Uint8Array | undefined {
    return this.#nodes.get(name);
  }

  /** Keeps a copy, because the bytes are often a slice of a larger buffer. */
  add(name: string, node: Uint8Array): void {
    if (node.length > maxNodeBytes || this.#nodes.has(name)) return;
    this.#nodes.set(name, Uint8Array.from(node));
    this.bytes += node.length + entryBytes;
    for (const [oldest, { length }] of this.#nodes) {
      if (this.bytes <= this.#maxBytes) break;
      this.#nodes.delete(oldest);
      this.bytes -= length + entryBytes;
    }
  }
}

/** Returns the hash as text that is short to compare. */
export function nameOf(hash: Uint8Array): string {
  return Buffer.from(hash.buffer, hash.byteOffset, hash.length).toString("latin1");
}
