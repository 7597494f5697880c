/** Adds up the charges of a short range by hour. The daily sums have no hours, so this reads the charges of the range. */
import type { DatabaseSync } from "node:sqlite";
import { number } from "sluice-gateway/store";
import type { SpendQuery } from "sluice-gateway/services";
import { commitsWithin } from "../commits.ts";
import { at, kind, RecordCursor } from "../records.ts";
import { ChargeNames } from "./charge-names.ts";
import { dayMs, memberNumber, span } from "./schema.ts";
import { hourMs, hoursOf, stepMsOf, type SpendSteps } from "./steps.ts";

interface HoursQuery extends Pick<SpendQuery, "from" | "to" | "by" | "wantsHours"> {
  /** A workspace, or 0 for all. */
  readonly scope: number;
  /** The names whose steps are wanted. */
  readonly names: readonly number[];
  /** Maximum number of charges of all workspaces in the range. */
  readonly maxCharges: number;
}

/** Returns undefined if no hours are wanted, or if the range is too long or has too many charges of all workspaces. */
export function readHours(
  sums: DatabaseSync,
  journal: DatabaseSync,
  query: HoursQuery,
): SpendSteps | undefined {
  const { from, to, by, scope, names, maxCharges } = query;
  if (stepMsOf(query) !== hourMs || countCharges(sums, { from, to }) > maxCharges) {
    return undefined;
  }
  const steps = hoursOf({ from, to });
  const series = names.map(() => hoursOf({ from, to }));
  const byName = new Map(names.map((name, place) => [name, series[place]]));
  const chargeNames = new ChargeNames(sums, journal);
  const member = memberNumber(by);
  const last = Number(sums.prepare("SELECT seq FROM read").get()?.["seq"] ?? 0);
  for (const { seq, records } of commitsWithin(journal, from, to)) {
    // Later charges are not in the sums, either.
    if (seq > last) break;
    const cursor = new RecordCursor(records);
    while (cursor.next()) {
      if (cursor.kind !== kind.charge) continue;
      const time = cursor.float(at.charge.time);
      if (time < from || time >= to) continue;
      if (scope !== 0 && cursor.uint(at.charge.workspace) !== scope) continue;
      const hour = Math.floor((time - from) / hourMs);
      const cost = cursor.costMilliCu;
      steps[hour] = (steps[hour] ?? 0) + cost;
      const values = byName.get(chargeNames.of(cursor)[member] ?? 0);
      if (values !== undefined) values[hour] = (values[hour] ?? 0) + cost;
    }
  }
  return { stepMs: hourMs, steps, series };
}

/** Returns the number of charges of all workspaces, because all of them are read. */
function countCharges(sums: DatabaseSync, { from, to }: Pick<HoursQuery, "from" | "to">): number {
  const row = sums
    .prepare(
      `SELECT ifnull(sum(calls), 0) AS calls FROM sums
       WHERE scope = 0 AND member = ? AND span = ? AND start >= ? AND start < ?`,
    )
    .get(memberNumber("tool"), span.day, from / dayMs, to / dayMs);
  return row === undefined ? 0 : number(row, "calls");
}
