/** `AccountStore.searchKeys` in PostgreSQL. */
import type { KeySearch } from "sluice-gateway/services";
import { selectKeys } from "./account-rows.ts";

/**
 * Returns the statement for one page of keys, newest first. Without a text, it reads backwards from the newest key (of
 * the workspace) and stops at the limit. A text is searched for in every key.
 */
export function searchStatement(search: KeySearch): {
  readonly statement: string;
  readonly values: readonly unknown[];
} {
  const { workspaceId = null, text, activeAt = null, skip = 0, limit } = search;
  const statement = `${selectKeys(", workspaces.name AS workspace_name")}
    JOIN sluice.workspaces ON workspaces.id = keys.workspace_id
    WHERE ($1::text IS NULL OR keys.workspace_id = $1)
      AND ($2::bigint IS NULL OR keys.revoked_at IS NULL AND coalesce(keys.expires_at, $2 + 1) > $2)
      AND ($3 = '' OR position(lower($3) IN lower(concat_ws(E'\\n', keys.id, keys.name, workspaces.id,
        workspaces.name))) > 0)
    ORDER BY keys.no DESC LIMIT $4 OFFSET $5`;
  return { statement, values: [workspaceId, activeAt, text, limit, skip] };
}
