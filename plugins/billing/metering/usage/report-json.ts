/** The JSON of a usage report (decisions.md section 10) and the bounds of reports, which are the same for every store. */
import type { UsageMember, UsageRange } from "sluice-gateway/services";

/** Maximum number of groups. A larger report would be as large as an export; use `sluice usage export` for that. */
export const maxGroups = 20_000;

/** Maximum number of series per chart. More lines could not be distinguished. */
export const maxSeries = 6;

/** Order of the members in a group, and sort order of the groups. */
const members: readonly UsageMember[] = ["key", "surface", "method", "model", "day"];

/** The members of a group that are sums. */
export const sumNames = [
  "calls",
  "used_cu_milli",
  "input_tokens",
  "output_tokens",
  "cached_tokens",
  "reasoning_tokens",
] as const;

/** The last two are parts of the two counts before, and are known if classes of tokens have prices. */
export type UsageSums = Readonly<Record<(typeof sumNames)[number], number>>;

/** `labels`: one for each member that the report is grouped by, in the order of `sortedMembers`. */
export interface UsageGroup {
  readonly labels: readonly (string | null)[];
  readonly sums: UsageSums;
}

export function sortedMembers(groupBy: readonly UsageMember[]): UsageMember[] {
  return members.filter((member) => groupBy.includes(member));
}

/** Returns the report with its groups sorted by their labels. */
export function reportJson(
  { workspaceId, from, to, groupBy }: UsageRange,
  groups: readonly UsageGroup[],
): string {
  const names = sortedMembers(groupBy);
  const sorted = groups.toSorted((a, b) => compare(a.labels, b.labels));
  return JSON.stringify({
    workspace_id: workspaceId,
    from: new Date(from).toISOString(),
    to: new Date(to).toISOString(),
    used_cu_milli: groups.reduce((sum, { sums }) => sum + sums.used_cu_milli, 0),
    groups: sorted.map(({ labels, sums: { cached_tokens, reasoning_tokens, ...sums } }) => ({
      ...Object.fromEntries(names.map((member, index) => [member, labels[index]])),
      ...sums,
      // Without prices per class, there are none.
      ...(cached_tokens + reasoning_tokens > 0 && { cached_tokens, reasoning_tokens }),
    })),
  });
}

/** Compares by code unit. Null comes first. */
function compare(a: readonly (string | null)[], b: readonly (string | null)[]): number {
  for (const [index, left] of a.entries()) {
    const right = b[index] ?? null;
    if (left === right) continue;
    return left === null || (right !== null && left < right) ? -1 : 1;
  }
  return 0;
}
