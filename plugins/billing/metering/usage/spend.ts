/**
 * The spend of a range of days by one member, from the sums of the hours, the same for every store. A charge has one
 * amount. What is included, purchased and overage is known of the month of a workspace, and each of its groups has its
 * share of the three.
 */
import type {
  Spend,
  SpendAmounts,
  SpendGroup,
  SpendMember,
  SpendQuery,
} from "sluice-gateway/services";
import { number, optionalText, text, type Row } from "sluice-gateway/internal/store";
import { totalOf, type Drawn, periodOf } from "../../leases/months.ts";
import { type ReadCharges, type ReadMonths, maxSeries } from "./report.ts";

const hourMs = 3_600_000;
const dayMs = 24 * hourMs;
const maxHourlyDays = 2;

const columns: Readonly<Record<SpendMember, string>> = {
  workspace: "workspace_id",
  key: "key_id",
  model: "model",
  tool: "CASE WHEN surface IN ('tool-rpc', 'mcp') THEN method ELSE '' END",
  method: "method",
  route: "route",
  tag: "tag",
};

const used = "CAST(sum(used) AS float8) AS used";
const sumColumns = [
  "calls",
  "used",
  "input_tokens",
  "output_tokens",
  "cached_tokens",
  "reasoning_tokens",
]
  .map((column) => `CAST(sum(${column}) AS float8) AS ${column}`)
  .join(", ");

function within({ from, to, workspaceId }: SpendQuery): readonly [string, readonly unknown[]] {
  const hours = [from / hourMs, to / hourMs];
  const condition = "hour >= $1 AND hour < $2";
  if (workspaceId === undefined) return [condition, hours];
  return [`${condition} AND workspace_id = $3`, [...hours, workspaceId]];
}

export async function readSpend(
  read: ReadCharges,
  readMonths: ReadMonths,
  query: SpendQuery,
): Promise<Spend> {
  const [condition, values] = within(query);
  const rows = await read(
    `SELECT ${columns[query.by]} AS name, workspace_id, ${monthColumn(query)} AS month, ${sumColumns}
     FROM sluice.hours WHERE ${condition} GROUP BY 1, 2, 3 ORDER BY 1, 2, 3`,
    values,
  );
  const shares = new Shares(await readMonths(query.workspaceId));
  const byName = new Map<string, Sums & Pick<SpendGroup, "name">>();
  for (const row of rows) {
    const name = text(row, "name");
    const sums = byName.get(name) ?? { name: name === "" ? undefined : name, ...none };
    byName.set(name, sums);
    addTo(sums, amountsOf(row, shares));
  }
  const groups = [...byName.values()].toSorted(inOrder);
  const total = { ...none };
  for (const { name: _, ...amounts } of groups) addTo(total, amounts);
  const steps = await readSteps(read, query, groups.slice(0, maxSeries));
  return { total, groups: groups.slice(0, query.limit), groupCount: groups.length, ...steps };
}

type Sums = Record<keyof SpendAmounts, number>;

const none: Sums = {
  calls: 0,
  usedMilliCu: 0,
  includedMilliCu: 0,
  purchasedMilliCu: 0,
  overageMilliCu: 0,
  inputTokens: 0,
  outputTokens: 0,
  cachedTokens: 0,
  reasoningTokens: 0,
};

async function readSteps(
  read: ReadCharges,
  query: SpendQuery,
  top: readonly SpendGroup[],
): Promise<Pick<Spend, "stepMs" | "steps" | "series">> {
  const { from, to, by, wantsHours = false } = query;
  const stepMs = wantsHours && to - from <= maxHourlyDays * dayMs ? hourMs : dayMs;
  const zeros = (): number[] => Array<number>((to - from) / stepMs).fill(0);
  const steps = zeros();
  const series = new Map(top.map(({ name }) => [name ?? "", zeros()]));
  if (top.length > 0) {
    const [condition, values] = within(query);
    const places = top.map((_, place) => `$${values.length + place + 1}`).join(", ");
    const rows = await read(
      `SELECT hour / ${stepMs / hourMs} AS step,
         CASE WHEN ${columns[by]} IN (${places}) THEN ${columns[by]} END AS name, ${used}
       FROM sluice.hours WHERE ${condition} GROUP BY 1, 2`,
      [...values, ...series.keys()],
    );
    for (const row of rows) {
      const step = number(row, "step") - from / stepMs;
      const amount = number(row, "used");
      steps[step] = (steps[step] ?? 0) + amount;
      const ofName = series.get(optionalText(row, "name") ?? noName);
      if (ofName !== undefined) ofName[step] = amount;
    }
  }
  return { stepMs, steps, series: [...series.values()] };
}

/** Not the text of any name. */
const noName = "\u0000";

function monthColumn({ from, to }: SpendQuery): string {
  let column = "";
  let month = periodOf(from);
  for (; month.end < to; month = periodOf(month.end)) {
    column += `WHEN hour < ${month.end / hourMs} THEN ${month.start} `;
  }
  return `CASE ${column}WHEN true THEN ${month.start} END`;
}

function amountsOf(row: Row, shares: Shares): SpendAmounts {
  const usedMilliCu = number(row, "used");
  return {
    calls: number(row, "calls"),
    usedMilliCu,
    ...shares.take(text(row, "workspace_id"), number(row, "month"), usedMilliCu),
    inputTokens: number(row, "input_tokens"),
    outputTokens: number(row, "output_tokens"),
    cachedTokens: number(row, "cached_tokens"),
    reasoningTokens: number(row, "reasoning_tokens"),
  };
}

function addTo(sums: Sums, amounts: SpendAmounts): void {
  for (const [member, amount] of Object.entries(amounts)) {
    // The amounts have exactly these members.
    sums[member as keyof SpendAmounts] += amount;
  }
}

/** Divides the months of workspaces among groups, in proportion to their amounts. The shares add up to the month. */
class Shares {
  readonly #months: Awaited<ReturnType<ReadMonths>>;
  readonly #taken = new Map<Drawn, number>();

  constructor(months: Awaited<ReturnType<ReadMonths>>) {
    this.#months = months;
  }

  take(workspaceId: string, month: number, usedMilliCu: number): Drawn {
    const drawn = this.#months.get(workspaceId)?.get(month);
    if (drawn === undefined) {
      return { includedMilliCu: usedMilliCu, purchasedMilliCu: 0, overageMilliCu: 0 };
    }
    const before = this.#taken.get(drawn) ?? 0;
    this.#taken.set(drawn, before + usedMilliCu);
    const total = Math.max(1, totalOf(drawn));
    const upTo = (part: number, amount: number): number =>
      Math.round(part * Math.min(1, amount / total));
    const shareOf = (part: number): number => upTo(part, before + usedMilliCu) - upTo(part, before);
    const purchasedMilliCu = Math.min(usedMilliCu, shareOf(drawn.purchasedMilliCu));
    const overageMilliCu = Math.min(usedMilliCu - purchasedMilliCu, shareOf(drawn.overageMilliCu));
    const includedMilliCu = usedMilliCu - purchasedMilliCu - overageMilliCu;
    return { includedMilliCu, purchasedMilliCu, overageMilliCu };
  }
}

/** The largest group first. */
function inOrder(a: SpendGroup, b: SpendGroup): number {
  if (a.usedMilliCu !== b.usedMilliCu) return b.usedMilliCu - a.usedMilliCu;
  return (a.name ?? "") < (b.name ?? "") ? -1 : 1;
}
