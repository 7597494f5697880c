/**
 * Knowledge of a pool of several nodes about blocks. With it, a read of old state is sent to a node that has the state,
 * and wrong empty answers are recognised.
 */
import type { Clock } from "sluice-gateway/plugin";
import { BoundedMap } from "sluice-gateway/internal/toolkit";
import type { BlockOfCall, NodeRequest } from "../node-pool.ts";
import { discardedState, isFailureWithoutBlock } from "./node-error.ts";
import type { PooledNode } from "./pooled-node.ts";
import { readHash } from "./read-head.ts";
import { StateDepths } from "./state-depth.ts";

/** Methods that answer `null` only if the node does not have the block. */
const readsBlock: ReadonlySet<string> = new Set([
  "chain_getHeader",
  "chain_getBlock",
  "archive_v1_header",
  "archive_v1_body",
  "archive_v1_call",
]);
/**
 * The result is a hash, or a list with a hash. It is `null` or `[]` only if the node does not have a block of this
 * height.
 */
const readsHeight: ReadonlySet<string> = new Set(["chain_getBlockHash", "archive_v1_hashByHeight"]);
/** Methods without params that always have an answer. */
const readsHead: ReadonlySet<string> = new Set(["chain_getFinalizedHead", "chain_getHead"]);

/**
 * - `fine`: the answer may be right.
 * - `elsewhere`: another node may have the block.
 * - `fault`: the node has reported that it has the block, so its answer is wrong.
 */
type EmptyAnswer = "fine" | "elsewhere" | "fault";

function isEmpty(bytes: Buffer, start: number, end: number): boolean {
  const length = end - start;
  if (length > 4) return false;
  const text = bytes.toString("latin1", start, end);
  return text === "null" || text === "[]";
}

/** Judges an empty result. `best`: highest block that any node of the pool has reported. */
function judgeEmpty(
  { method, block, params }: NodeRequest,
  node: PooledNode,
  best: number | undefined,
): EmptyAnswer {
  if (readsHead.has(method)) return "fault";
  if (readsBlock.has(method)) {
    if (block?.hash === undefined) return params === "" || params === "[]" ? "fault" : "fine";
    return "elsewhere";
  }
  if (!readsHeight.has(method) || block?.number === undefined) return "fine";
  if (block.number <= (node.observed?.finalized ?? -1)) return "fault";
  return block.number <= (best ?? -1) ? "elsewhere" : "fine";
}

/** This method reports a failure as a result. */
const archiveCall = "archive_v1_call";
const maxBlocks = 4_096;
const maxHashText = 134;

export class NodeBlocks {
  readonly #depths: StateDepths;
  /** Numbers of blocks, or upper bounds of them, by hash. */
  readonly #numbers = new BoundedMap<string, number>(maxBlocks);
  #best: number | undefined;

  constructor(clock: Clock) {
    this.#depths = new StateDepths(clock);
  }

  review(nodes: readonly PooledNode[], best: number | undefined): void {
    this.#best = best;
    for (const node of nodes) this.#depths.probed(node);
  }

  clear(): void {
    this.#numbers.clear();
  }

  /**
   * Returns all of `nodes` if it is not known which have the block. `finalized`: highest block that every node has
   * finalized.
   */
  nodesWith(
    block: BlockOfCall | undefined,
    nodes: readonly PooledNode[],
    finalized: number | undefined,
  ): readonly PooledNode[] {
    if (block === undefined || nodes.length < 2) return nodes;
    const { hash, needsState } = block;
    const number = block.number ?? (hash === undefined ? undefined : this.#numbers.peek(hash));
    if (number === undefined) return nodes;
    if (number > (finalized ?? -1))
      return those(nodes, ({ observed }) => number <= (observed?.best ?? 0));
    return needsState ? those(nodes, ({ oldestState = 0 }) => number >= oldestState) : nodes;
  }

  judgeResult(
    request: NodeRequest,
    node: PooledNode,
    bytes: Buffer,
    start: number,
    end: number,
  ): EmptyAnswer {
    const { method, block } = request;
    if (isEmpty(bytes, start, end)) return judgeEmpty(request, node, this.#best);
    if (method === archiveCall && isFailureWithoutBlock(bytes, start, end)) {
      if (discardedState(bytes, start, end)) this.discarded(block, node);
      return "elsewhere";
    }
    if (readsHeight.has(method) && block?.number !== undefined) {
      const hash = readHash(bytes.toString("latin1", start, Math.min(end, start + maxHashText)));
      if (hash !== undefined) this.#numbers.set(hash, block.number);
    }
    return "fine";
  }

  /** The node has discarded the state at the block, so the block is older than its oldest state. */
  discarded(block: BlockOfCall | undefined, { oldestState = 0 }: PooledNode): void {
    if (block?.hash === undefined || oldestState === 0) return;
    const known = this.#numbers.peek(block.hash) ?? Infinity;
    this.#numbers.set(block.hash, Math.min(known, oldestState - 1));
  }

  close(): void {
    this.#depths.close();
  }
}

/** Returns all nodes if `has` is true for none. */
function those(
  nodes: readonly PooledNode[],
  has: (node: PooledNode) => boolean,
): readonly PooledNode[] {
  const having = nodes.filter(has);
  return having.length > 0 ? having : nodes;
}
