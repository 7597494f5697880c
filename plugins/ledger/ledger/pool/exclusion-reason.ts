/**
 * The reasons, in the order in which nodes are preferred if every node is excluded: a node that lags is better than one
 * without peers, and any node that answers is better than one that does not. Nodes that are excluded for one of the
 * last two reasons are not used at all: see `NodeHealth.lastResort`.
 */
export const exclusionReasons = [
  /** More than `maxLag` blocks behind the best of the others. */
  "lagging",
  /** The node's head has not moved for `maxHeadAge`. */
  "stale_head",
  "no_peers",
  "syncing",
  /** The node's finalized head went back: it was restored from a backup, or it reports wrong data. */
  "finalized_backwards",
  /** The node answers probes, but several consecutive calls failed. */
  "tripped",
  /** An answer of the node was proved to be wrong. */
  "wrong_proof",
  /** The node answers probes, but not as a node should: an HTTP error, a web page, a header without a number. */
  "bad_answer",
  "unreachable",
  /** The node has not been probed yet, or the expected chain is not known yet. */
  "unprobed",
  /** The node's genesis differs from that of the first node in the configuration. */
  "other_chain",
] as const;
export type ExclusionReason = (typeof exclusionReasons)[number];
