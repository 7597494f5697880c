/** Why a node is left out. */
import type { Observation } from "./probe.ts";

/**
 * In the order in which nodes are preferred when every one has a complaint: behind is better than alone, anything that
 * answers better than what does not. The last two are not asked at all: see `Roster.lastResort`.
 */
export const complaints = [
  /** More than `maxLag` blocks behind the best of the others. */
  "lagging",
  /** Its head has not moved for `maxHeadAge`. */
  "stale_head",
  /** It should have peers and has none. */
  "no_peers",
  "syncing",
  /** Its finalized head went back: it was restored, or is not telling the truth. */
  "finalized_backwards",
  /** It answers probes, but calls failed one after the other. */
  "tripped",
  /** It answers probes, but not with what a node says: an HTTP error, a web page, a header without a number. */
  "bad_answer",
  /** It does not answer probes. */
  "unreachable",
  /** Not probed yet, or not yet known of which chain it must be. */
  "unprobed",
  /** Another genesis than that of the first node in the configuration. */
  "other_chain",
] as const;
export type Complaint = (typeof complaints)[number];

/** What a node's own words mean beside those of the others. */
export function judge(
  observed: Observation,
  beside: {
    /** Undefined: it is the only one. */
    readonly bestOfOthers: number | undefined;
    readonly maxLag: number;
    /** Milliseconds since its head moved. */
    readonly headAgeMs: number;
    readonly maxHeadAgeMs: number | undefined;
  },
): Complaint | undefined {
  const { bestOfOthers, maxLag, headAgeMs, maxHeadAgeMs } = beside;
  if (observed.syncing) return "syncing";
  if (!observed.peered) return "no_peers";
  if (maxHeadAgeMs !== undefined && headAgeMs > maxHeadAgeMs) return "stale_head";
  if (bestOfOthers !== undefined && bestOfOthers - observed.best > maxLag) return "lagging";
  return undefined;
}
