/**
 * Adds up the charges of a workspace from the journal. This is a job of the compute pool, because it reads every charge
 * of the range and would block the event loop. Measured: 3 to 6 million charges per second, with 50 per commit.
 */
import type { DatabaseSync } from "node:sqlite";
import { transferredResult } from "sluice-gateway/compute";
import type { UsageMember, UsageRange } from "sluice-gateway/services";
import { explain, number } from "sluice-gateway/store";
import { commitsWithin, NameReader } from "./commits.ts";
import { hasJournal, openJournalReader } from "./journal-reader.ts";
import { journalPath } from "./journal-schema.ts";
import { at, kind, RecordCursor } from "./records.ts";
import { maxGroups, reportJson, sortedMembers, type UsageGroup } from "./usage-report-json.ts";

export interface UsageReportJob extends UsageRange {
  readonly dataDir: string;
}

const dayMs = 86_400_000;
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
  if (!hasJournal(job.dataDir)) return reportJson(job, []);
  const db = openJournalReader(job.dataDir);
  try {
    const groupBy = sortedMembers(job.groupBy);
    const groups = addUp(db, job, groupBy);
    if (groups === undefined) return undefined;
    return reportJson(job, named(groups, groupBy, new NameReader(db)));
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

/** Returns the groups with their names instead of numbers. */
function named(
  groups: readonly Group[],
  groupBy: readonly UsageMember[],
  names: NameReader,
): UsageGroup[] {
  const label = (member: UsageMember, value: number): string | null => {
    if (member === "day") return new Date(value * dayMs).toISOString().slice(0, 10);
    return member === "model" && value === 0 ? null : names.get(value);
  };
  return groups.map((group) => ({
    ...group,
    labels: groupBy.map((member) => label(member, group.place[member])),
  }));
}
