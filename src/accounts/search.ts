/** Finds keys for people who look for one: a page of them, not all. */
import type { DatabaseSync } from "node:sqlite";
import { text } from "../store/row.ts";
import { recordFromRow, selectKeys, type KeyRecord } from "./keys.ts";

export interface KeySearch {
  /** Undefined: of all workspaces. */
  readonly workspaceId: string | undefined;
  /** Part of the key's id, its name, or its workspace's; empty: any. */
  readonly text: string;
  /** Only keys that are neither revoked nor expired at this time (milliseconds since 1970). */
  readonly activeAt: number | undefined;
  readonly limit: number;
}

export interface FoundKey {
  readonly key: KeyRecord;
  readonly workspaceName: string;
}

/** The newest first. */
export function searchKeys(db: DatabaseSync, search: KeySearch): FoundKey[] {
  const rows = db
    .prepare(
      `${selectKeys("workspaces.name AS workspace_name")}
       JOIN workspaces ON workspaces.id = keys.workspace_id
       WHERE (:workspace IS NULL OR keys.workspace_id = :workspace)
         AND (:active IS NULL
              OR (keys.revoked_at IS NULL AND (keys.expires_at IS NULL OR keys.expires_at > :active)))
         AND (:text = '' OR instr(lower(keys.id || char(10) || keys.name || char(10)
                                        || workspaces.id || char(10) || workspaces.name), lower(:text)) > 0)
       ORDER BY keys.created_at DESC, keys.id DESC
       LIMIT :limit`,
    )
    .all({
      workspace: search.workspaceId ?? null,
      active: search.activeAt ?? null,
      text: search.text,
      limit: search.limit,
    });
  return rows.map((row) => ({
    key: recordFromRow(row),
    workspaceName: text(row, "workspace_name"),
  }));
}
