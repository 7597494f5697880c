/** Usage reports on the charges of all gateways, which PostgreSQL adds up. */
import type { Log, Postgres } from "sluice-gateway/plugin";
import type { UsageMember, UsageReports } from "sluice-gateway/services";
import { readSpend } from "./read-spend.ts";
import {
  maxGroups,
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
  };
}
