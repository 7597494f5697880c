/** Searches keys in PostgreSQL, one page at a time. */
import type { RunStatement } from "sluice-gateway/plugin";
import type { FoundKey, KeySearch } from "sluice-gateway/services";
import { text } from "sluice-gateway/store";
import { keyRecordFromRow } from "../rows.ts";
import { selectKeys } from "./keys.ts";

const statement = `${selectKeys("workspaces.name AS workspace_name")}
  JOIN sluice.workspaces ON workspaces.id = keys.workspace_id
  WHERE ($1::text IS NULL OR keys.workspace_id = $1)
    AND ($2::bigint IS NULL OR keys.revoked_at IS NULL AND coalesce(keys.expires_at, $2 + 1) > $2)
    AND ($3 = '' OR position(lower($3) IN lower(concat_ws(E'\\n', keys.id, keys.name, workspaces.id,
      workspaces.name))) > 0)
  ORDER BY keys.no DESC LIMIT $4 OFFSET $5`;

/**
 * Returns one page of keys, newest first. Without a text, it reads backwards from the newest key (of the workspace) and
 * stops at the limit. A text is searched for in every key.
 */
export async function searchKeys(
  run: RunStatement,
  search: KeySearch,
): Promise<readonly FoundKey[]> {
  const { workspaceId = null, text: wanted, activeAt = null, skip = 0, limit } = search;
  const rows = await run(statement, [workspaceId, activeAt, wanted, limit, skip]);
  return rows.map((row) => ({
    key: keyRecordFromRow(row),
    workspaceName: text(row, "workspace_name"),
  }));
}
