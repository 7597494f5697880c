import type { HeadNode } from "./node.ts";

export interface ProvedChain {
  /** Number and hash of the highest block that is proved. There is no hash while none is. */
  readonly number: number;
  readonly hash: string | undefined;
  /** True if proofs have fitted what the operator has configured. Until then, that may be wrong and not the nodes. */
  readonly isConfirmed: boolean;
  /** The reason why nothing can be proved any more without a new configuration. */
  readonly ended?: string | undefined;
  /** The authority set of the next block, if the chain has one. */
  readonly setId?: bigint;
  /** Returns the proved hash of a block. Undefined if it is above the proved ones, or is not kept. */
  hashAt(number: number): string | undefined;
  /** Returns true if the block with this hash is proved and kept. */
  has(hash: string): boolean;
  proofOf(hash: string): FinalityOfBlock | undefined;
  /** Proves the blocks up to the finalized head of the node, which has the number `head`. Throws a NodeError. */
  follow(node: HeadNode, head: number): Promise<void>;
}

/** Proves to a client that a block is finalized. All in SCALE. */
export interface FinalityOfBlock {
  readonly justification: Uint8Array;
  /** The headers from that of the block up to the justified one. */
  readonly headers: readonly Uint8Array[];
}

const maxKept = 4_096;

export class ProvedHashes {
  readonly #byNumber = new Map<number, string>();
  readonly #hashes = new Set<string>();

  at(number: number): string | undefined {
    return this.#byNumber.get(number);
  }

  has(hash: string): boolean {
    return this.#hashes.has(hash);
  }

  add(number: number, hash: string): void {
    this.#byNumber.set(number, hash);
    this.#hashes.add(hash);
    for (const [oldNumber, oldHash] of this.#byNumber) {
      if (this.#byNumber.size <= maxKept) break;
      this.#byNumber.delete(oldNumber);
      this.#hashes.delete(oldHash);
    }
  }

  clear(): void {
    this.#byNumber.clear();
    this.#hashes.clear();
  }
}
