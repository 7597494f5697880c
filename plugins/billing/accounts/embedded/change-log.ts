/** The log of changes. The audit log shows it, and a running gateway learns from it what it must read again. */
import type { DatabaseSync } from "node:sqlite";
import type { ChangeAuthor } from "sluice-gateway/services";
import { number, optionalText, text } from "sluice-gateway/store";
import type { Change, ChangePage } from "../account-store.ts";

type Action =
  | "workspace.create"
  | "workspace.set"
  | "workspace.upgrade"
  | "workspace.downgrade"
  | "workspace.cancel-downgrade"
  | "workspace.purchase"
  | "key.create"
  | "key.set"
  | "key.revoke"
  | "key.rotate"
  | "network.models";

/** Appends a change. Call it in the transaction that makes the change. */
export function recordChange(
  db: DatabaseSync,
  by: ChangeAuthor,
  change: { action: Action; workspaceId?: string; keyId?: string; details?: object },
): void {
  db.prepare(
    "INSERT INTO changes (at, actor, action, workspace_id, key_id, details, request_id) VALUES (?, ?, ?, ?, ?, ?, ?)",
  ).run(
    by.at,
    by.actor,
    change.action,
    change.workspaceId ?? "",
    change.keyId ?? null,
    JSON.stringify(change.details ?? {}),
    by.requestId ?? null,
  );
}

/** Returns changes in the order of commits. */
export function listChanges(db: DatabaseSync, page: ChangePage = {}): Change[] {
  const { workspaceId, after = 0, limit = -1 } = page;
  const order = "ORDER BY id LIMIT ?";
  const rows =
    workspaceId === undefined
      ? db.prepare(`SELECT * FROM changes WHERE id > ? ${order}`).all(after, limit)
      : db
          .prepare(`SELECT * FROM changes WHERE id > ? AND workspace_id = ? ${order}`)
          .all(after, workspaceId, limit);
  return rows.map((row) => ({
    id: number(row, "id"),
    at: number(row, "at"),
    actor: text(row, "actor"),
    action: text(row, "action"),
    workspaceId: text(row, "workspace_id"),
    keyId: optionalText(row, "key_id"),
    details: JSON.parse(text(row, "details")) as unknown,
    requestId: optionalText(row, "request_id"),
  }));
}
