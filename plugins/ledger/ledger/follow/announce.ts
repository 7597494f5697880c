/** Reports the blocks of a follow to the pool, which then reads them from the node that has announced them. */
import type { NodePool } from "../node-pool.ts";
import type { Block, TreeChange } from "./block-tree.ts";

/** `node`: label of the node that has announced the change. */
export function announce(
  { announcements }: Pick<NodePool, "announcements">,
  node: string,
  change: TreeChange,
): void {
  if (announcements === undefined) return;
  switch (change.kind) {
    case "newBlock":
      return announcements.announcedBlocks(node, [change.block.hash]);
    case "initialized":
    case "finalized": {
      const hashes = hashesOf(change.finalized);
      announcements.announcedBlocks(node, hashes);
      const last = hashes.at(-1);
      if (last !== undefined) void announcements.announcedFinalizedHash(node, last);
      if (change.kind === "finalized") announcements.announcedPruned(hashesOf(change.pruned));
      return;
    }
    case "best":
    case "ignored":
    case "invalid":
    default:
  }
}

function hashesOf(blocks: readonly Block[]): readonly string[] {
  return blocks.map(({ hash }) => hash);
}
