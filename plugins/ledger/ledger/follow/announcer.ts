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
  /** Hash of the finalized block. */
  #last = "";
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
    this.#last = hashes.at(-1) ?? this.#last;
    if (this.#firstNumber === undefined) void this.#ask();
    else this.#announceLast(this.#firstNumber);
  }

  #announceLast(firstNumber: number): void {
    const number = firstNumber + this.#advanced;
    this.#announcements.announcedFinalized(this.#node, number, this.#last);
  }

  /** Asks for the number of the finalized block. Never rejects. */
  async #ask(): Promise<void> {
    if (this.#isAsking) return;
    const advanced = this.#advanced;
    this.#isAsking = true;
    const number = await this.#announcements.numberOf(this.#node, this.#last);
    this.#isAsking = false;
    if (number === undefined) return;
    this.#firstNumber = number - advanced;
    // The node may have finalized more blocks in the meantime. The clients are told of them now.
    this.#announceLast(this.#firstNumber);
    this.#onNumber();
  }
}

function hashesOf(blocks: readonly Block[]): readonly string[] {
  return blocks.map(({ hash }) => hash);
}
