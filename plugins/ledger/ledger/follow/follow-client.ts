import type {
  ClientFollow,
  ClientOperation,
  FollowOperation,
  NotificationListener,
  OperationListener,
} from "sluice-gateway/services";
import type { FeedAnswer } from "../feed/feed-connection.ts";
import type { Block, BlockTree, TreeChange } from "./block-tree.ts";
import type { Operations } from "./operations.ts";

export interface FollowOwner {
  header(block: Block): Promise<FeedAnswer>;
  readonly operations: Operations;
  leave(client: FollowClient): void;
}

export class FollowClient implements ClientFollow {
  readonly #follow: FollowOwner;
  readonly #tree: BlockTree;
  #pinned = new Set<Block>();
  /** Blocks that were not reported to the client, because they do not descend from its first finalized block. */
  #omitted: Set<string> | undefined;
  #listener: NotificationListener | undefined;
  #hasBegun = false;
  #hasEnded = false;

  constructor(follow: FollowOwner, tree: BlockTree) {
    this.#follow = follow;
    this.#tree = tree;
  }

  start(listener: NotificationListener): void {
    if (this.#hasEnded) return listener.onEnd();
    this.#listener = listener;
    this.begin();
  }

  /** Sends the first events as soon as the client is started and the node has sent `initialized`. */
  begin(): void {
    if (this.#hasBegun || this.#listener === undefined || !this.#tree.isInitialized) return;
    this.#hasBegun = true;
    const { events, blocks, omitted } = this.#tree.replay();
    this.#pinned = new Set(blocks);
    if (omitted.size > 0) this.#omitted = new Set(omitted);
    for (const event of events) this.#listener?.onNotification(event, false);
  }

  change(change: TreeChange, result: string): void {
    if (!this.#hasBegun) return;
    if (change.kind === "newBlock") {
      const { block } = change;
      if (this.#omitted?.has(block.parent) === true) {
        this.#omitted.add(block.hash);
        return;
      }
      block.holders++;
      this.#pinned.add(block);
    }
    if (change.kind === "best" && this.#omitted?.has(change.hash) === true) return;
    const visible = this.#omitted === undefined ? result : this.#visible(change, result);
    this.#listener?.onNotification(visible, false);
  }

  stop(): void {
    this.#hasEnded = true;
    this.#listener?.onEnd();
    this.#listener = undefined;
  }

  close(): void {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    this.#listener = undefined;
    this.releaseAll();
    this.#follow.leave(this);
  }

  holds(block: Block): boolean {
    return this.#pinned.has(block);
  }

  hasPinned(hash: string): boolean {
    const block = this.#tree.block(hash);
    return block !== undefined && this.#pinned.has(block);
  }

  unpin(hashes: readonly string[]): boolean {
    const blocks = hashes.map((hash) => this.#tree.block(hash));
    if (!blocks.every((block) => block !== undefined && this.#pinned.has(block))) return false;
    for (const block of blocks) {
      if (block === undefined || !this.#pinned.delete(block)) continue;
      this.#tree.release(block);
    }
    return true;
  }

  releaseAll(): void {
    const pinned = this.#pinned;
    this.#pinned = new Set();
    for (const block of pinned) this.#tree.release(block);
  }

  header(hash: string): Promise<FeedAnswer> {
    const block = this.#tree.block(hash);
    return block === undefined ? Promise.resolve(undefined) : this.#follow.header(block);
  }

  operate(operation: FollowOperation, listener: OperationListener): ClientOperation | undefined {
    const block = this.#tree.block(operation.hash);
    return block && this.#follow.operations.start(block, operation, listener);
  }

  /** Returns an event without the blocks that were never reported to this client. */
  #visible(change: TreeChange, result: string): string {
    if (change.kind !== "finalized") return result;
    const omitted = this.#omitted;
    const isVisible = ({ hash }: Block): boolean => omitted?.delete(hash) !== true;
    const pruned = change.pruned.filter(isVisible).map(({ hash }) => hash);
    if (omitted?.size === 0) this.#omitted = undefined;
    const finalized = change.finalized.map(({ hash }) => hash);
    return JSON.stringify({
      event: "finalized",
      finalizedBlockHashes: finalized,
      prunedBlockHashes: pruned,
    });
  }
}
