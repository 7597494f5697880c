/**
 * Adds up the charges over time by surface, workspace and key, in one pass through the journal. Like the usage report,
 * this is a job of the compute pool.
 */
import type { DatabaseSync } from "node:sqlite";
import { transferredResult } from "sluice-gateway/compute";
import type { Series, UsageSeries, UsageSeriesQuery } from "sluice-gateway/services";
import { explain, number } from "sluice-gateway/store";
import { commitsWithin, NameReader } from "./commits.ts";
import { hasJournal, openJournalReader } from "./journal-reader.ts";
import { journalPath } from "./journal-schema.ts";
import { at, kind, RecordCursor } from "./records.ts";
import { maxSeries } from "./usage-report-json.ts";

export interface UsageSeriesJob extends UsageSeriesQuery {
  readonly dataDir: string;
}

interface Line {
  calls: number;
  usedMilliCu: number;
  readonly values: number[];
}

type Lines = Map<number, Line>;

/** Runs in a thread of the pool. Throws StoreError. */
export default function series(job: UsageSeriesJob): unknown {
  return transferredResult(new TextEncoder().encode(JSON.stringify(usageSeries(job))));
}

/** Throws StoreError. */
export function usageSeries(job: UsageSeriesJob): UsageSeries {
  const none = { calls: 0, usedMilliCu: 0, surfaces: [], workspaces: [], keys: [] };
  if (!hasJournal(job.dataDir)) return none;
  const db = openJournalReader(job.dataDir);
  try {
    const all: Line = { calls: 0, usedMilliCu: 0, values: [] };
    const by = { surfaces: new Map(), workspaces: new Map(), keys: new Map() };
    if (!addUp(db, job, all, by)) return none;
    const names = new NameReader(db);
    const { calls, usedMilliCu } = all;
    return {
      calls,
      usedMilliCu,
      surfaces: largest(by.surfaces, names),
      workspaces: largest(by.workspaces, names),
      keys: largest(by.keys, names),
    };
  } catch (error) {
    throw explain(error, journalPath(job.dataDir));
  } finally {
    db.close();
  }
}

/** Returns false if the journal does not have the workspace. */
function addUp(
  db: DatabaseSync,
  { workspaceId, from, stepMs, steps }: UsageSeriesJob,
  all: Line,
  by: { readonly surfaces: Lines; readonly workspaces: Lines; readonly keys: Lines },
): boolean {
  let only: number | undefined;
  if (workspaceId !== undefined) {
    const row = db.prepare("SELECT id FROM names WHERE name = ?").get(workspaceId);
    if (row === undefined) return false;
    only = number(row, "id");
  }
  const to = from + stepMs * steps;
  for (const { records } of commitsWithin(db, from, to)) {
    const cursor = new RecordCursor(records);
    while (cursor.next()) {
      if (cursor.kind !== kind.charge) continue;
      const workspace = cursor.uint(at.charge.workspace);
      if (only !== undefined && workspace !== only) continue;
      const time = cursor.float(at.charge.time);
      if (time < from || time >= to) continue;
      const step = Math.floor((time - from) / stepMs);
      const cost = cursor.costMilliCu;
      all.calls++;
      all.usedMilliCu += cost;
      add(by.surfaces, cursor.uint(at.charge.surface), step, steps, cost);
      add(by.workspaces, workspace, step, steps, cost);
      add(by.keys, cursor.uint(at.charge.key), step, steps, cost);
    }
  }
  return true;
}

function add(lines: Lines, name: number, step: number, steps: number, costMilliCu: number): void {
  let line = lines.get(name);
  if (line === undefined) {
    line = { calls: 0, usedMilliCu: 0, values: Array<number>(steps).fill(0) };
    lines.set(name, line);
  }
  line.calls++;
  line.usedMilliCu += costMilliCu;
  line.values[step] = (line.values[step] ?? 0) + costMilliCu;
}

function largest(lines: Lines, names: NameReader): Series[] {
  const sorted = [...lines].toSorted(
    ([one, a], [other, b]) => b.usedMilliCu - a.usedMilliCu || b.calls - a.calls || one - other,
  );
  const shown = sorted
    .slice(0, maxSeries)
    .map(([name, line]): Series => ({ name: names.get(name), ...line }));
  const rest = sorted.slice(maxSeries).map(([, line]) => line);
  if (rest.length === 0) return shown;
  const [first] = rest;
  return [
    ...shown,
    {
      name: undefined,
      calls: rest.reduce((sum, { calls }) => sum + calls, 0),
      usedMilliCu: rest.reduce((sum, { usedMilliCu }) => sum + usedMilliCu, 0),
      values: (first?.values ?? []).map((_, step) =>
        rest.reduce((sum, { values }) => sum + (values[step] ?? 0), 0),
      ),
    },
  ];
}
