/** The contract through which reports read charges, and the usage report of a workspace, for every store. */
import type { UsageMember, UsageRange } from "sluice-gateway/services";
import { number, text, type Row } from "sluice-gateway/internal/store";
import type { Drawn } from "../../leases/months.ts";

/** Maximum number of groups. A larger report would be as large as an export; use `sluice usage export` for that. */
export const maxGroups = 20_000;

/** Maximum number of series per chart. More lines could not be distinguished. */
export const maxSeries = 6;

/** Order of the members in a group, and sort order of the groups. */
const memberOrder: readonly UsageMember[] = ["key", "surface", "method", "model", "day"];

const sumNames = [
  "calls",
  "used_cu_milli",
  "input_tokens",
  "output_tokens",
  "cached_tokens",
  "reasoning_tokens",
] as const;

/** The last two are parts of the two counts before, and are known if classes of tokens have prices. */
type UsageSums = Record<(typeof sumNames)[number], number>;

// The entries are those of the type.
const noSums = Object.fromEntries(sumNames.map((name) => [name, 0])) as UsageSums;

/** `labels`: one for each member that the report is grouped by, in the order of `sortedMembers`. */
interface UsageGroup {
  readonly labels: readonly (string | null)[];
  readonly sums: UsageSums;
}

function sortedMembers(groupBy: readonly UsageMember[]): UsageMember[] {
  return memberOrder.filter((member) => groupBy.includes(member));
}

function reportJson(
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

const hourMs = 3_600_000;
const hoursPerDay = 24;
const dayMs = hoursPerDay * hourMs;

/** Sums stay below 2^53, so they are exact as float8. */
const sumsOf = (columns: Partial<Record<keyof UsageSums, string>>): string =>
  sumNames
    .map((name) => `CAST(${columns[name] ?? `sum(${name})`} AS float8) AS ${name}`)
    .join(", ");
const hourSums = sumsOf({ used_cu_milli: "sum(used)" });
const chargeSums = sumsOf({ calls: "count(*)" });

const hourColumns: Readonly<Record<UsageMember, string>> = {
  key: "key_id",
  surface: "surface",
  method: "method",
  model: "model",
  day: `hour / ${hoursPerDay}`,
};

/**
 * Returns the report as JSON (decisions.md section 10). Undefined if there are more than `maxGroups`. Whole hours are
 * read from their sums, and the rest of the range from the charges.
 */
export async function usageReport(
  read: ReadCharges,
  range: UsageRange,
): Promise<string | undefined> {
  const { workspaceId, from, to } = range;
  const members = sortedMembers(range.groupBy);
  const groups = new Map<string, UsageGroup>();
  const add = (rows: readonly Row[]): void => {
    for (const row of rows) addRow(groups, row, members);
  };
  const addCharges = async (start: number, end: number): Promise<void> => {
    if (start >= end) return;
    // The charges of a part of an hour are of one day.
    const day = String(Math.floor(start / dayMs));
    const columns = { ...hourColumns, model: "coalesce(model, '')", day };
    const condition = `time >= to_timestamp(CAST($2 AS float8) / 1000)
      AND time < to_timestamp(CAST($3 AS float8) / 1000)`;
    const statement = selectGroups(members, columns, chargeSums, "charges", condition);
    add(await read(statement, [workspaceId, start, end], { workspaceId, from: start, to: end }));
  };
  const first = Math.ceil(from / hourMs);
  const past = Math.floor(to / hourMs);
  if (first > past) await addCharges(from, to);
  else {
    await addCharges(from, Math.min(first * hourMs, to));
    const condition = "hour >= $2 AND hour < $3";
    const statement = selectGroups(members, hourColumns, hourSums, "hours", condition);
    add(await read(statement, [workspaceId, first, past]));
    await addCharges(Math.max(past * hourMs, from), to);
  }
  return groups.size > maxGroups ? undefined : reportJson(range, [...groups.values()]);
}

function selectGroups(
  members: readonly UsageMember[],
  columns: Readonly<Record<UsageMember, string>>,
  sums: string,
  table: "hours" | "charges",
  condition: string,
): string {
  const named = members.map((member) => `${columns[member]} AS of_${member}`);
  const places = members.map((_, place) => place + 1);
  return `SELECT ${[...named, sums].join(", ")} FROM sluice.${table}
    WHERE workspace_id = $1 AND ${condition}
    GROUP BY ${places.length === 0 ? "workspace_id" : places.join(", ")} LIMIT ${maxGroups + 1}`;
}

function labelOf(row: Row, member: UsageMember): string | null {
  if (member === "day") {
    return new Date(number(row, "of_day") * dayMs).toISOString().slice(0, 10);
  }
  const name = text(row, `of_${member}`);
  return member === "model" && name === "" ? null : name;
}

function addRow(groups: Map<string, UsageGroup>, row: Row, members: readonly UsageMember[]): void {
  const labels = members.map((member) => labelOf(row, member));
  const place = JSON.stringify(labels);
  const group = groups.get(place) ?? { labels, sums: { ...noSums } };
  groups.set(place, group);
  for (const name of sumNames) group.sums[name] += number(row, name);
}

export interface ChargeBounds {
  readonly workspaceId: string;
  /** Milliseconds since 1970. `from` is inclusive, and `to` is exclusive. */
  readonly from: number;
  readonly to: number;
}

/**
 * Runs one statement: see `RunSql`. It may read two tables.
 *
 * `sluice.hours` has the sums of all settled charges by `hour` (hours since 1970), `workspace_id`, `key_id`, `surface`,
 * `method`, `model`, `route` and `tag`; a missing model, route or tag is an empty text. The sums are `calls`, `used`
 * (milli-CU), and the four counts of tokens. Several rows may have the same names.
 *
 * `sluice.charges` has the charges themselves, with the columns of the table in PostgreSQL. `bounds`: those that the
 * statement selects. The data folder has only these, because it must decode them. Conditions on `time` compare it with
 * `to_timestamp`.
 */
export type ReadCharges = (
  text: string,
  values: readonly unknown[],
  bounds?: ChargeBounds,
) => Promise<readonly Row[]>;

/**
 * Returns what of each month is included, purchased and overage, by workspace and by the start of the month. All
 * workspaces if `workspaceId` is undefined.
 */
export type ReadMonths = (
  workspaceId: string | undefined,
) => Promise<ReadonlyMap<string, ReadonlyMap<number, Drawn>>>;
