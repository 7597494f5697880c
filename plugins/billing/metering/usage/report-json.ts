/** The JSON of a usage report (decisions.md section 10) and the bounds of reports, which are the same for every store. */
import type { UsageMember, UsageRange } from "sluice-gateway/services";

/** Maximum number of groups. A larger report would be as large as an export; use `sluice usage export` for that. */
export const maxGroups = 20_000;

/** Maximum number of series per chart. More lines could not be distinguished. */
export const maxSeries = 6;

/** Order of the members in a group, and sort order of the groups. */
const members: readonly UsageMember[] = ["key", "surface", "method", "model", "day"];

/** `labels`: one for each member that the report is grouped by, in the order of `sortedMembers`. */
export interface UsageGroup {
  readonly labels: readonly (string | null)[];
  readonly calls: number;
  readonly usedMilliCu: number;
  readonly inputTokens: number;
  readonly outputTokens: number;
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
    used_cu_milli: groups.reduce((sum, { usedMilliCu }) => sum + usedMilliCu, 0),
    groups: sorted.map(({ labels, calls, usedMilliCu, inputTokens, outputTokens }) => ({
      ...Object.fromEntries(names.map((member, index) => [member, labels[index]])),
      calls,
      used_cu_milli: usedMilliCu,
      input_tokens: inputTokens,
      output_tokens: outputTokens,
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
