/** Decides whether an empty answer of a node can be right. */
import type { NodeRequest } from "../node-pool.ts";
import type { PooledNode } from "./pooled-node.ts";

/** Methods that answer `null` only if the node does not have the block. */
const readsBlock: ReadonlySet<string> = new Set([
  "chain_getHeader",
  "chain_getBlock",
  "archive_v1_header",
  "archive_v1_body",
  "archive_v1_call",
]);
/** Methods that answer `null` or `[]` only if the node does not have a block of this height. */
const readsHeight: ReadonlySet<string> = new Set(["chain_getBlockHash", "archive_v1_hashByHeight"]);
/** Methods without params that always have an answer. */
const readsHead: ReadonlySet<string> = new Set(["chain_getFinalizedHead", "chain_getHead"]);

/**
 * - `fine`: the answer may be right.
 * - `elsewhere`: another node may have the block.
 * - `fault`: the node has reported that it has the block, so its answer is wrong.
 */
export type EmptyAnswer = "fine" | "elsewhere" | "fault";

/** Returns true for `null` and `[]`. */
export function isEmpty(bytes: Buffer, start: number, end: number): boolean {
  const length = end - start;
  if (length > 4) return false;
  const text = bytes.toString("latin1", start, end);
  return text === "null" || text === "[]";
}

/** Judges an empty result. `best`: highest block that any node of the pool has reported. */
export function judgeEmpty(
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
