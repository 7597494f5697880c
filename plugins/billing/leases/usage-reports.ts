/** Usage reports on the charges of all gateways, which PostgreSQL adds up. */
import type { Log, Postgres } from "sluice-gateway/plugin";
import type { Series, UsageMember, UsageReports, UsageSeries } from "sluice-gateway/services";
import { readSpend } from "./read-spend.ts";
import {
  maxGroups,
  maxSeries,
  reportJson,
  sortedMembers,
  type UsageGroup,
} from "../metering/usage-report-json.ts";

const columns: Readonly<Record<UsageMember, string>> = {
  key: "key_id",
  surface: "surface",
  method: "method",
  model: "model",
  day: "to_char(time AT TIME ZONE 'UTC', 'YYYY-MM-DD')",
};

const used = "included_cu_milli + purchased_cu_milli + overage_cu_milli";

/** Sums stay below 2^53, so they are exact as float8. */
const sums = `count(*)::float8 AS calls, sum(${used})::float8 AS used,
  sum(input_tokens)::float8 AS input_tokens, sum(output_tokens)::float8 AS output_tokens`;

/** Parameters: the workspace or null, start, length and number of the steps. A list has at most `maxSeries` names, then null. */
const seriesQuery = `
  WITH charged AS (
    SELECT surface, workspace_id, key_id, ${used} AS used,
      floor((extract(epoch FROM time) * 1000 - $2::float8) / $3::float8)::int AS step
    FROM sluice.charges
    WHERE time >= to_timestamp($2::float8 / 1000)
      AND time < to_timestamp(($2::float8 + $3::float8 * $4::int) / 1000)
      AND ($1::text IS NULL OR workspace_id = $1)
  ), steps AS (
    SELECT list, name, step, count(*) AS calls, sum(used) AS used
    FROM charged CROSS JOIN LATERAL
      (VALUES ('surfaces', surface), ('workspaces', workspace_id), ('keys', key_id)) AS lists (list, name)
    GROUP BY list, name, step
  ), places AS (
    SELECT list, name,
      row_number() OVER (PARTITION BY list ORDER BY sum(used) DESC, sum(calls) DESC, name) AS place
    FROM steps GROUP BY list, name
  )
  SELECT list, least(place, ${maxSeries + 1})::int AS place, step,
    max(CASE WHEN place <= ${maxSeries} THEN name END) AS name,
    sum(calls)::float8 AS calls, sum(used)::float8 AS used
  FROM steps JOIN places USING (list, name)
  GROUP BY 1, 2, 3 ORDER BY 1, 2, 3`;

interface SeriesRow {
  readonly list: "surfaces" | "workspaces" | "keys";
  readonly place: number;
  readonly step: number;
  readonly name: string | null;
  readonly calls: number;
  readonly used: number;
}

export function createDatabaseReports(database: Postgres, log: Log): UsageReports {
  const failed = (err: unknown): void => log.error({ err }, "a usage report was not made");
  return {
    async report(range) {
      const { workspaceId, from, to, groupBy } = range;
      const members = sortedMembers(groupBy).map((member) => columns[member]);
      const labels = members.length === 0 ? "ARRAY[]::text[]" : `ARRAY[${members.join(", ")}]`;
      try {
        const rows = await database.query(
          "usage",
          `SELECT ${labels} AS labels, ${sums} FROM sluice.charges
           WHERE workspace_id = $1 AND time >= to_timestamp($2::float8 / 1000) AND time < to_timestamp($3::float8 / 1000)
           GROUP BY 1 LIMIT ${maxGroups + 1}`,
          [workspaceId, from, to],
        );
        if (rows.length > maxGroups) return { kind: "tooManyGroups", maxGroups };
        const groups = rows.map((row) => ({
          // The statement above defines the types of its columns.
          labels: row["labels"] as UsageGroup["labels"],
          calls: row["calls"] as number,
          usedMilliCu: row["used"] as number,
          inputTokens: row["input_tokens"] as number,
          outputTokens: row["output_tokens"] as number,
        }));
        return { kind: "done", json: new TextEncoder().encode(reportJson(range, groups)) };
      } catch (error) {
        failed(error);
        return { kind: "unavailable" };
      }
    },
    async spend(query) {
      try {
        return await readSpend(database, query);
      } catch (error) {
        failed(error);
        return { kind: "unavailable" };
      }
    },
    async series({ workspaceId, from, stepMs, steps }) {
      try {
        const args = [workspaceId ?? null, from, stepMs, steps];
        // The statement defines the types of its columns.
        const rows = (await database.query("usage", seriesQuery, args)) as unknown as SeriesRow[];
        return seriesOf(rows, steps);
      } catch (error) {
        failed(error);
        return undefined;
      }
    },
  };
}

function seriesOf(rows: readonly SeriesRow[], steps: number): UsageSeries {
  const lists = Map.groupBy(rows, ({ list }) => list);
  const listOf = (list: SeriesRow["list"]): Series[] =>
    [...Map.groupBy(lists.get(list) ?? [], ({ place }) => place).values()].map((line) => {
      const values = Array<number>(steps).fill(0);
      for (const { step, used: milliCu } of line) values[step] = milliCu;
      return {
        name: line[0]?.name ?? undefined,
        calls: line.reduce((sum, { calls }) => sum + calls, 0),
        usedMilliCu: line.reduce((sum, row) => sum + row.used, 0),
        values,
      };
    });
  const surfaces = listOf("surfaces");
  return {
    calls: surfaces.reduce((sum, { calls }) => sum + calls, 0),
    usedMilliCu: surfaces.reduce((sum, { usedMilliCu }) => sum + usedMilliCu, 0),
    surfaces,
    workspaces: listOf("workspaces"),
    keys: listOf("keys"),
  };
}
