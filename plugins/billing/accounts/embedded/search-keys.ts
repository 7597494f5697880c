/** Searches keys, one page at a time. */
import type { DatabaseSync } from "node:sqlite";
import type { FoundKey, KeySearch } from "sluice-gateway/services";
import { text } from "sluice-gateway/store";
import { keyRecordFromRow } from "../rows.ts";
import { selectKeys } from "./keys.ts";

const textMatches = `instr(lower(keys.id || char(10) || keys.name || char(10) || workspaces.id || char(10)
  || workspaces.name), lower(:text)) > 0`;

/**
 * Returns keys, newest first. Without a text, it reads backwards from the newest key (of the workspace) and stops at
 * the limit. A text is searched for in every key, which takes about 1 µs each.
 */
export function searchKeys(db: DatabaseSync, search: KeySearch): FoundKey[] {
  const { workspaceId, text: wanted, activeAt, skip = 0, limit } = search;
  const conditions: string[] = [];
  const values: Record<string, string | number> = { limit, skip };
  if (workspaceId !== undefined) {
    conditions.push("keys.workspace_id = :workspace");
    values["workspace"] = workspaceId;
  }
  if (activeAt !== undefined) {
    conditions.push("keys.revoked_at IS NULL AND ifnull(keys.expires_at, :now + 1) > :now");
    values["now"] = activeAt;
  }
  if (wanted !== "") {
    conditions.push(textMatches);
    values["text"] = wanted;
  }
  const where = conditions.length === 0 ? "" : `WHERE ${conditions.join(" AND ")}`;
  // Row ids have the order in which keys were created, so no sorting is needed.
  const rows = db
    .prepare(
      `${selectKeys("workspaces.name AS workspace_name")}
       CROSS JOIN workspaces ON workspaces.id = keys.workspace_id
       ${where} ORDER BY keys.rowid DESC LIMIT :limit OFFSET :skip`,
    )
    .all(values);
  return rows.map((row) => ({
    key: keyRecordFromRow(row),
    workspaceName: text(row, "workspace_name"),
  }));
}
