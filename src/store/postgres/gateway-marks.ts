import type { RunSql } from "../../contract/sql.ts";
import { number, text } from "../row.ts";

export interface GatewayMark {
  readonly name: string;
  /** 0 if it has not shown the mark yet. */
  readonly mark: number;
  /** Time since the last heartbeat of the gateway, which sends one every second. */
  readonly silentMs: number;
}

/** Returns the marks of the gateways that have sent a heartbeat in the last ten minutes and have not been stopped. */
export async function gatewayMarks(query: RunSql, mark: string): Promise<readonly GatewayMark[]> {
  const rows = await query(
    `SELECT name, coalesce(CAST(marks ->> $1 AS bigint), 0) AS mark, sluice.now_ms() - heard_at AS silent_ms
     FROM sluice.gateways ORDER BY name, id`,
    [mark],
  );
  return rows.map((row) => ({
    name: text(row, "name"),
    mark: number(row, "mark"),
    silentMs: number(row, "silent_ms"),
  }));
}
