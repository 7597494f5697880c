/**
 * Reports the blocks of one follow to the pool, which then reads them from the node of the follow, and keeps the number of
 * the finalized block. The events of a follow contain hashes only, so the node is asked for the first number.
 */
import type { Announcements } from "../node-pool.ts";
import type { Block, TreeChange } from "./block-tree.ts";

export class Announcer {
  readonly #announcements: Announcements;
  readonly #node: string;
  readonly #onNumber: () => void;
  /** Number of the block that was finalized when the follow began. Undefined while it is not known. */
  #firstNumber: number | undefined;
  /** Number of blocks that were finalized since then. */
  #advanced = 0;
  #isAsking = false;

  /** `node`: label of the node. `onNumber`: called when the number of the finalized block is first known. */
  constructor(announcements: Announcements, node: string, onNumber: () => void) {
    this.#announcements = announcements;
    this.#node = node;
    this.#onNumber = onNumber;
  }

  /** Returns true if the finalized block is at least as high as `floor`, which is a finalized head of the pool. */
  hasFinalized(floor: number): boolean {
    if (this.#firstNumber === undefined) return false;
    // The chain of the nodes can have started again since the pool had this head.
    const { finalizedFloor = 0 } = this.#announcements;
    return this.#firstNumber + this.#advanced >= Math.min(floor, finalizedFloor);
  }

  announce(change: TreeChange): void {
    const announcements = this.#announcements;
    switch (change.kind) {
      case "newBlock":
        return announcements.announcedBlocks(this.#node, [change.block.hash]);
      case "initialized":
        return this.#finalized(hashesOf(change.finalized));
      case "finalized":
        this.#advanced += change.finalized.length;
        this.#finalized(hashesOf(change.finalized));
        return announcements.announcedPruned(hashesOf(change.pruned));
      case "best":
      case "ignored":
      case "invalid":
      default:
    }
  }

  /** `hashes`: blocks in ascending order. */
  #finalized(hashes: readonly string[]): void {
    this.#announcements.announcedBlocks(this.#node, hashes);
    const last = hashes.at(-1);
    if (last === undefined) return;
    if (this.#firstNumber === undefined) return void this.#ask(last);
    this.#announcements.announcedFinalized(this.#node, this.#firstNumber + this.#advanced, last);
  }

  /** Asks for the number of the block that was finalized last. Never rejects. */
  async #ask(hash: string): Promise<void> {
    if (this.#isAsking) return;
    const advanced = this.#advanced;
    this.#isAsking = true;
    const number = await this.#announcements.numberOf(this.#node, hash);
    this.#isAsking = false;
    if (number === undefined) return;
    this.#firstNumber = number - advanced;
    this.#announcements.announcedFinalized(this.#node, number, hash);
    this.#onNumber();
  }
}

function hashesOf(blocks: readonly Block[]): readonly string[] {
  return blocks.map(({ hash }) => hash);
}
