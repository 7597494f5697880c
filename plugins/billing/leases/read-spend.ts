/** Reads the spend of a range of days from PostgreSQL, after the new charges of all gateways were added to the sums. */
import type { Postgres } from "sluice-gateway/plugin";
import type { SpendAnswer, SpendMember, SpendQuery } from "sluice-gateway/services";
import { number, optionalText, text, type Row } from "sluice-gateway/store";
import { amountsOf, spendOf, type NamedSum } from "../metering/spend/spend-of.ts";
import {
  hourMs,
  hoursOf,
  maxHourlyCharges,
  stepMsOf,
  type SpendSteps,
} from "../metering/spend/steps.ts";
import { dayMs } from "../metering/spend/schema.ts";
import { maxSeries } from "../metering/usage-report-json.ts";

/** Number of charges that one statement adds to the sums. */
const chargesPerTurn = 200_000;
/** Time after which the caller must ask again. */
const maxTurnMs = 5_000;

/** Parameters: scope, member, start and end of the range as dates. Whole months of all workspaces are
 * read as months. */
const groupsQuery = `
  WITH range AS (
    SELECT $3::date AS start, $4::date AS stop,
      CASE $1 WHEN '' THEN date_trunc('month', $3::date + interval '1 month' - interval '1 day')::date
        ELSE $4::date END AS first,
      CASE $1 WHEN '' THEN date_trunc('month', $4::date::timestamp)::date ELSE $3::date END AS past)
  SELECT name, sum(calls)::float8 AS calls, sum(included)::float8 AS included,
    sum(purchased)::float8 AS purchased, sum(overage)::float8 AS overage,
    sum(input_tokens)::float8 AS input_tokens, sum(output_tokens)::float8 AS output_tokens
  FROM sluice.spend, range
  WHERE scope = $1 AND member = $2 AND (
    (span = 'month' AND spend.start >= first AND spend.start < past) OR
    (span = 'day' AND spend.start >= range.start AND spend.start < range.stop
      AND (first >= past OR spend.start < first OR spend.start >= past)))
  GROUP BY name
  ORDER BY sum(included + purchased + overage) DESC, name`;

/** Parameters: scope, member, start and end of the range, and names, or null for the sum of all. */
const daysQuery = `
  SELECT name, day, used FROM (
    SELECT CASE WHEN $5::text[] IS NULL THEN '' ELSE name END AS name, (start - $3::date)::int AS day,
      sum(included + purchased + overage)::float8 AS used
    FROM sluice.spend
    WHERE scope = $1 AND member = $2 AND span = 'day' AND start >= $3::date AND start < $4::date
      AND ($5::text[] IS NULL OR name = ANY ($5))
    GROUP BY 1, 2) AS each`;

/** The members as columns of the charges. */
const memberColumns: Readonly<Record<SpendMember, string>> = {
  workspace: "workspace_id",
  key: "key_id",
  model: "model",
  tool: "CASE WHEN surface IN ('tool-rpc', 'mcp') THEN method END",
  method: "method",
  route: "route",
  tag: "agent ->> 'name'",
};

/** Parameters: scope, start and end of the range in milliseconds, and names. All other names become null. */
const hoursQuery = (by: SpendMember): string => `
  SELECT CASE WHEN name = ANY ($4::text[]) THEN name END AS name, hour, sum(used)::float8 AS used FROM (
    SELECT coalesce(${memberColumns[by]}, '') AS name,
      floor((extract(epoch FROM time) * 1000 - $2::float8) / ${hourMs})::int AS hour,
      included_cu_milli + purchased_cu_milli + overage_cu_milli AS used
    FROM sluice.charges
    WHERE time >= to_timestamp($2::float8 / 1000) AND time < to_timestamp($3::float8 / 1000)
      AND ($1 = '' OR workspace_id = $1)) AS each
  GROUP BY 1, 2`;

/** Rejects with DatabaseFailure. */
export async function readSpend(database: Postgres, query: SpendQuery): Promise<SpendAnswer> {
  const until = performance.now() + maxTurnMs;
  for (;;) {
    const statement = "SELECT sluice.add_spend($1) AS more";
    const [row] = await database.query("usage", statement, [chargesPerTurn]);
    if (row?.["more"] !== true) break;
    if (performance.now() >= until) return { kind: "building" };
  }
  const { from, to, by, workspaceId: scope = "" } = query;
  const rows = await database.query("usage", groupsQuery, [scope, by, dateOf(from), dateOf(to)]);
  const groups = rows.map(sumOf);
  const top = rows.slice(0, maxSeries).map((row) => text(row, "name"));
  const charges = groups.reduce((sum, { calls }) => sum + calls, 0);
  const hasHours = stepMsOf(query) === hourMs && charges <= maxHourlyCharges;
  const read = hasHours ? readHours : readDays;
  return { kind: "done", spend: spendOf(query, groups, await read(database, query, top)) };
}

/** `top`: the names whose steps are wanted. Rejects with DatabaseFailure. */
async function readDays(
  database: Postgres,
  { from, to, by, workspaceId: scope = "" }: SpendQuery,
  top: readonly string[],
): Promise<SpendSteps> {
  const read = (member: string, names: readonly string[] | null): Promise<readonly Row[]> =>
    database.query("usage", daysQuery, [scope, member, dateOf(from), dateOf(to), names]);
  const fill = (days: readonly Row[]): number[] => {
    const values = Array<number>((to - from) / dayMs).fill(0);
    for (const row of days) values[number(row, "day")] = number(row, "used");
    return values;
  };
  // The member `tool` has the fewest rows, and every charge counts in every member.
  const steps = fill(await read("tool", null));
  const byName = Map.groupBy(await read(by, top), (row) => text(row, "name"));
  return { stepMs: dayMs, steps, series: top.map((name) => fill(byName.get(name) ?? [])) };
}

/** Like `readDays`, from the charges of the range, because the sums have no hours. */
async function readHours(
  database: Postgres,
  { from, to, by, workspaceId: scope = "" }: SpendQuery,
  top: readonly string[],
): Promise<SpendSteps> {
  const rows = await database.query("usage", hoursQuery(by), [scope, from, to, top]);
  const steps = hoursOf({ from, to });
  const series = new Map<string | null, number[]>(top.map((name) => [name, hoursOf({ from, to })]));
  for (const row of rows) {
    const hour = number(row, "hour");
    const used = number(row, "used");
    steps[hour] = (steps[hour] ?? 0) + used;
    const values = series.get(optionalText(row, "name") ?? null);
    if (values !== undefined) values[hour] = used;
  }
  return { stepMs: hourMs, steps, series: [...series.values()] };
}

function dateOf(time: number): string {
  return new Date(time).toISOString().slice(0, 10);
}

function sumOf(row: Row): NamedSum {
  const name = text(row, "name");
  return { name: name === "" ? undefined : name, ...amountsOf(row) };
}
