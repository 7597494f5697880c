/**
 * Keeps the finalized head of a pool from going back: the nodes finalize at slightly different times, and two
 * consecutive calls may reach different nodes. If a node lags, the pool answers with the highest finalized head that
 * one of its nodes has reported.
 */
import type { PooledNode } from "./pooled-node.ts";

/**
 * Number of blocks by which a finalized head may be higher than the best block of the other nodes. A node that reports
 * more is not believed, because a head that is too high would be answered until the chain reaches it.
 */
const maxAhead = 16;

interface Head {
  readonly hash: string;
  readonly number: number;
}

export class FinalizedHead {
  readonly #nodes: readonly PooledNode[];
  #head: Head | undefined;
  #height = -1;

  constructor(nodes: readonly PooledNode[]) {
    this.#nodes = nodes;
  }

  /** Hash of the highest finalized block that a node has reported. Undefined before the first report. */
  get hash(): string | undefined {
    return this.#head?.hash;
  }

  /** Called when a node has reported a finalized block. Returns the hash of the highest one. */
  reported(hash: string, number: number, node: PooledNode): string {
    if (this.#head === undefined || (number > this.#head.number && this.#isPlausible(number, node)))
      this.#head = { hash, number };
    this.reportedHeight(number, node);
    return this.#head.hash;
  }

  /** Called when a node has reported the number of its finalized block. Returns the highest number. */
  reportedHeight(number: number, node: PooledNode): number {
    if (this.#height < 0 || (number > this.#height && this.#isPlausible(number, node)))
      this.#height = number;
    return this.#height;
  }

  /** Called when the nodes have changed, for example to another chain. */
  reset(): void {
    this.#head = undefined;
    this.#height = -1;
  }

  #isPlausible(number: number, node: PooledNode): boolean {
    const others = this.#nodes.filter((other) => other !== node && !other.isEjected);
    const best = Math.max(...others.map(({ observed }) => observed?.best ?? 0));
    return others.length === 0 || number <= best + maxAhead;
  }
}
