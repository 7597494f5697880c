/**
 * Remembers which nodes have reported a block, and the numbers of blocks, so that a read at a block is sent to a node
 * that has it. Nodes report blocks when they are probed, by their answers to calls that return block hashes, by the events
 * of follows, and by the heads of subscriptions.
 */
import type { Clock } from "sluice-gateway/plugin";
import type { PooledNode } from "./pooled-node.ts";

const maxBlocks = 4_096;
/**
 * A block that is new to the pool is read only from the nodes that have reported it. After this time, every node that
 * does not lag has it, and a node that lags is asked last.
 */
const newMs = 30_000;

interface KnownBlock {
  readonly firstReportAt: number;
  number: number | undefined;
  readonly reporters: PooledNode[];
}

export class KnownBlocks {
  readonly #clock: Clock;
  /** By hash. The oldest entries are deleted first. */
  readonly #blocks = new Map<string, KnownBlock>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Called when a node has reported that it has a block. `number`: undefined if it is not known. */
  reported(hash: string, number: number | undefined, node: PooledNode): void {
    const block = this.#find(hash);
    block.number ??= number;
    if (!block.reporters.includes(node)) block.reporters.push(node);
  }

  /** Called when nodes may have deleted a block, so that they are not to blame if they do not have it. */
  forget(hash: string): void {
    this.#blocks.delete(hash);
  }

  /** Called when a node has discarded the state at a block, so that the block is at most this high. */
  isAtMost(hash: string, number: number): void {
    const block = this.#find(hash);
    block.number = Math.min(block.number ?? number, number);
  }

  /** Returns the number of a block, or an upper bound of it. Undefined if it is not known. */
  numberOf(hash: string): number | undefined {
    return this.#blocks.get(hash)?.number;
  }

  /** Returns the nodes that have reported a new block. Empty if the block is unknown, or not new. */
  reportersOfNew(hash: string): readonly PooledNode[] {
    const block = this.#blocks.get(hash);
    if (block === undefined || this.#clock.monotonic() - block.firstReportAt > newMs) return none;
    return block.reporters;
  }

  clear(): void {
    this.#blocks.clear();
  }

  #find(hash: string): KnownBlock {
    const known = this.#blocks.get(hash);
    if (known !== undefined) return known;
    const block = { firstReportAt: this.#clock.monotonic(), number: undefined, reporters: [] };
    this.#blocks.set(hash, block);
    if (this.#blocks.size > maxBlocks) {
      for (const oldest of this.#blocks.keys()) {
        this.#blocks.delete(oldest);
        break;
      }
    }
    return block;
  }
}

const none: readonly PooledNode[] = [];
