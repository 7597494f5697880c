/** The record of changes: what the audit trail shows, and how a running gateway learns what it must read again. */
import type { DatabaseSync } from "node:sqlite";
import { number, optionalText, text } from "../../../src/store/row.ts";

/** Who does something, and when (milliseconds since 1970). `cli:<user>`, or the id of a key with its request's id. */
export interface ChangeAuthor {
  readonly actor: string;
  readonly at: number;
  readonly requestId?: string | undefined;
}

export type Action =
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

export interface Change extends ChangeAuthor {
  /** Ascending in the order of commits. */
  readonly id: number;
  readonly action: string;
  /** Empty: a change of the deployment's own. */
  readonly workspaceId: string;
  readonly keyId: string | undefined;
  /** What was set, as it was given; never a secret. */
  readonly details: unknown;
}

/** Appends a change, in the transaction that makes it. */
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

export interface ChangePage {
  /** Undefined: all workspaces, and the deployment's own changes. */
  readonly workspaceId?: string | undefined;
  /** Only changes with a higher id. */
  readonly after?: number | undefined;
  readonly limit?: number | undefined;
}

/** In the order of commits. */
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
