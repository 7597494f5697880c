/**
 * Finds out how far back each node has the state of its blocks. A pruned node discards the state of old blocks (by
 * default, Substrate keeps 256), and an archive node keeps it from the first block.
 */
import type { Clock } from "sluice-gateway/plugin";
import { ask } from "./probe.ts";
import type { NodeClient } from "./node-call.ts";
import type { PooledNode } from "./pooled-node.ts";

const remeasureMs = 3_600_000;
/** A key whose value is small or missing in every block: `:extrinsic_index`. */
const smallKey = "0x3a65787472696e7369635f696e646578";

export class StateDepths {
  readonly #timer: Disposable;
  readonly #measured = new Set<PooledNode>();

  constructor(clock: Clock) {
    this.#timer = clock.every(remeasureMs, () => this.#measured.clear());
  }

  probed(node: PooledNode): void {
    const head = node.observed?.finalized;
    if (node.isEjected || head === undefined || this.#measured.has(node)) return;
    this.#measured.add(node);
    void this.#measure(node, head);
  }

  /** Never rejects. Keeps the last result if the node does not answer. */
  async #measure(node: PooledNode, head: number): Promise<void> {
    const oldest = await findOldestState(node.probeClient, head);
    const best = node.observed?.best;
    if (oldest === undefined || best === undefined) return;
    node.stateDepth = oldest <= 1 ? Infinity : best - oldest;
    node.metrics.oldestState.set(node.oldestState ?? 0);
  }

  close(): void {
    this.#timer[Symbol.dispose]();
  }
}

/** Uses a binary search up to `head`. Undefined if the node failed to answer, or lacks even the state at `head`. */
async function findOldestState(client: NodeClient, head: number): Promise<number | undefined> {
  const hasFirst = await hasState(client, Math.min(1, head));
  if (hasFirst === undefined) return undefined;
  if (hasFirst) return 0;
  if ((await hasState(client, head)) !== true) return undefined;
  let without = 1;
  let having = head;
  while (having - without > 1) {
    const middle = Math.floor((without + having) / 2);
    const has = await hasState(client, middle);
    if (has === undefined) return undefined;
    if (has) having = middle;
    else without = middle;
  }
  return having;
}

/** Undefined if the node did not answer, or does not know the block. */
async function hasState(client: NodeClient, block: number): Promise<boolean | undefined> {
  const hash = await ask(client, "chain_getBlockHash", [block]);
  if (hash.kind === "failed" || typeof hash.value !== "string") return undefined;
  const state = await ask(client, "state_getStorage", [smallKey, hash.value]);
  if (state.kind === "failed") return undefined;
  return state.value !== undefined;
}
