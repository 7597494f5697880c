/**
 * Adds up the charges of a workspace from the journal. This is a job of the compute pool, because it reads every charge
 * of the range and would block the event loop. Measured: 3 to 6 million charges per second, with 50 per commit.
 */
import type { DatabaseSync } from "node:sqlite";
import { transferredResult } from "sluice-gateway/compute";
import type { UsageMember } from "sluice-gateway/services";
import { explain, number } from "sluice-gateway/store";
import { commitsWithin, NameReader } from "./commits.ts";
import { hasJournal, openJournalReader } from "./journal-reader.ts";
import { journalPath } from "./journal-schema.ts";
import { at, kind, RecordCursor } from "./records.ts";

export interface UsageReportJob {
  readonly dataDir: string;
  readonly workspaceId: string;
  /** Milliseconds since 1970, finite. `from` is inclusive, and `to` is exclusive. */
  readonly from: number;
  readonly to: number;
  readonly groupBy: readonly UsageMember[];
}

/** Maximum number of groups. A larger report would be as large as an export; use `sluice usage export` for that. */
export const maxGroups = 20_000;

const dayMs = 86_400_000;
/** Order of the members in a group, and sort order of the groups. */
const members: readonly UsageMember[] = ["key", "surface", "method", "model", "day"];

/** A group of charges. `place`: their common numbers of names, and the days since 1970. */
interface Group {
  readonly place: Readonly<Record<UsageMember, number>>;
  calls: number;
  usedMilliCu: number;
  inputTokens: number;
  outputTokens: number;
}

/** Runs in a thread of the pool. Returns undefined if there are more than `maxGroups`. Throws StoreError. */
export default function report(job: UsageReportJob): unknown {
  const json = usageReport(job);
  return json === undefined ? undefined : transferredResult(new TextEncoder().encode(json));
}

/**
 * Returns the report as JSON (decisions.md section 10). Undefined if there are more than `maxGroups`. Throws
 * StoreError.
 */
export function usageReport(job: UsageReportJob): string | undefined {
  if (!hasJournal(job.dataDir)) return reportJson(job, [], []);
  const db = openJournalReader(job.dataDir);
  try {
    const groupBy = members.filter((member) => job.groupBy.includes(member));
    const groups = addUp(db, job, groupBy);
    if (groups === undefined) return undefined;
    return reportJson(job, groupBy, named(groups, groupBy, new NameReader(db)));
  } catch (error) {
    throw explain(error, journalPath(job.dataDir));
  } finally {
    db.close();
  }
}

function addUp(
  db: DatabaseSync,
  { workspaceId, from, to }: UsageReportJob,
  groupBy: readonly UsageMember[],
): Group[] | undefined {
  const row = db.prepare("SELECT id FROM names WHERE name = ?").get(workspaceId);
  if (row === undefined) return [];
  const workspace = number(row, "id");
  const groups = new Map<string, Group>();
  for (const { records } of commitsWithin(db, from, to)) {
    const cursor = new RecordCursor(records);
    while (cursor.next()) {
      if (cursor.kind !== kind.charge || cursor.uint(at.charge.workspace) !== workspace) continue;
      const time = cursor.float(at.charge.time);
      if (time < from || time >= to) continue;
      const place = placeOf(cursor, time);
      const name = groupBy.map((member) => place[member]).join(" ");
      let group = groups.get(name);
      if (group === undefined) {
        if (groups.size >= maxGroups) return undefined;
        group = { place, calls: 0, usedMilliCu: 0, inputTokens: 0, outputTokens: 0 };
        groups.set(name, group);
      }
      group.calls++;
      group.usedMilliCu += cursor.costMilliCu;
      group.inputTokens += cursor.float(at.charge.inputTokens);
      group.outputTokens += cursor.float(at.charge.outputTokens);
    }
  }
  return [...groups.values()];
}

function placeOf(cursor: RecordCursor, time: number): Group["place"] {
  return {
    key: cursor.uint(at.charge.key),
    surface: cursor.uint(at.charge.surface),
    method: cursor.uint(at.charge.method),
    model: cursor.uint(at.charge.model),
    day: Math.floor(time / dayMs),
  };
}

type NamedGroup = Group & { readonly labels: readonly (string | null)[] };

/** Returns the groups with their names instead of numbers, sorted by name. */
function named(
  groups: readonly Group[],
  groupBy: readonly UsageMember[],
  names: NameReader,
): NamedGroup[] {
  const label = (member: UsageMember, value: number): string | null => {
    if (member === "day") return new Date(value * dayMs).toISOString().slice(0, 10);
    return member === "model" && value === 0 ? null : names.get(value);
  };
  return groups
    .map((group) => ({
      ...group,
      labels: groupBy.map((member) => label(member, group.place[member])),
    }))
    .sort((a, b) => compare(a.labels, b.labels));
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

function reportJson(
  { workspaceId, from, to }: UsageReportJob,
  groupBy: readonly UsageMember[],
  groups: readonly NamedGroup[],
): string {
  return JSON.stringify({
    workspace_id: workspaceId,
    from: new Date(from).toISOString(),
    to: new Date(to).toISOString(),
    used_cu_milli: groups.reduce((sum, { usedMilliCu }) => sum + usedMilliCu, 0),
    groups: groups.map(({ labels, calls, usedMilliCu, inputTokens, outputTokens }) => ({
      ...Object.fromEntries(groupBy.map((member, index) => [member, labels[index]])),
      calls,
      used_cu_milli: usedMilliCu,
      input_tokens: inputTokens,
      output_tokens: outputTokens,
    })),
  });
}
