/**
 * Reports the blocks of one follow to the pool, which then reads them from the node of the follow, and keeps the number of
 * the finalized block. The events of a follow contain hashes only, so the node is asked for the first number.
 */
import type { Clock } from "sluice-gateway/plugin";
import type { Announcements } from "../node-pool.ts";
import type { Block, TreeChange } from "./block-tree.ts";

/** Time until the node is asked again if it has not answered with a number. */
const retryMs = 1_000;

export interface AnnouncerDeps {
  readonly announcements: Announcements;
  /** Label of the node. */
  readonly node: string;
  readonly clock: Clock;
  /** Called when the number of the finalized block is first known. */
  readonly onNumber: () => void;
}

export class Announcer {
  readonly #deps: AnnouncerDeps;
  /** Number of the block that was finalized when the follow began. Undefined while it is not known. */
  #firstNumber: number | undefined;
  /** Number of blocks that were finalized since then. */
  #advanced = 0;
  /** Hash of the finalized block. */
  #last = "";
  #isAsking = false;
  #retry: Disposable | undefined;
  #isClosed = false;

  constructor(deps: AnnouncerDeps) {
    this.#deps = deps;
  }

  /** Number of the finalized block. Undefined while it is not known. */
  get number(): number | undefined {
    return this.#firstNumber === undefined ? undefined : this.#firstNumber + this.#advanced;
  }

  /** Returns true if the finalized block is at least as high as `floor`, which is a finalized head of the pool. */
  hasFinalized(floor: number): boolean {
    // The pool can have withdrawn this head since the client got its floor.
    const { finalizedFloor = 0 } = this.#deps.announcements;
    return (this.number ?? -1) >= Math.min(floor, finalizedFloor);
  }

  announce(change: TreeChange): void {
    const { announcements, node } = this.#deps;
    switch (change.kind) {
      case "newBlock":
        return announcements.announcedBlocks(node, [change.block.hash]);
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
    const { announcements, node } = this.#deps;
    announcements.announcedBlocks(node, hashes);
    this.#last = hashes.at(-1) ?? this.#last;
    if (this.number === undefined) void this.#ask();
    else announcements.announcedFinalized(node, this.number, this.#last);
  }

  /** Called when the follow has ended. */
  close(): void {
    this.#isClosed = true;
    this.#retry?.[Symbol.dispose]();
  }

  /** Asks for the number of the finalized block. Never rejects. */
  async #ask(): Promise<void> {
    if (this.#isAsking) return;
    const { announcements, node, clock, onNumber } = this.#deps;
    const advanced = this.#advanced;
    this.#isAsking = true;
    this.#retry?.[Symbol.dispose]();
    const number = await announcements.numberOf(node, this.#last);
    this.#isAsking = false;
    if (this.#isClosed) return;
    if (number === undefined) {
      this.#retry = clock.after(retryMs, () => void this.#ask());
      return;
    }
    this.#firstNumber = number - advanced;
    // The node may have finalized more blocks in the meantime. The clients are told of them now.
    announcements.announcedFinalized(node, this.#firstNumber + this.#advanced, this.#last);
    onNumber();
  }
}

function hashesOf(blocks: readonly Block[]): readonly string[] {
  return blocks.map(({ hash }) => hash);
}
