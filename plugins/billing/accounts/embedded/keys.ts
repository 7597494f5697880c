/** Operations of `AccountStore` on API keys. Each call is one transaction. */
import type { DatabaseSync } from "node:sqlite";
import type {
  ChangeAuthor,
  Failed,
  IssuedKey,
  KeyRecord,
  NewKey,
  RotatedKey,
} from "sluice-gateway/services";
import { number, transaction } from "sluice-gateway/store";
import type { KeySettings } from "../account-store.ts";
import { isFailed, type Decision } from "../decision.ts";
import { notFound } from "../failed.ts";
import * as rules from "../key-rules.ts";
import { hashKey } from "../key-text.ts";
import { differingColumns, keyColumns, keyRecordFromRow } from "../rows.ts";
import { recordChanges } from "./change-log.ts";
import { findWorkspace } from "./workspaces.ts";
import { insertRow, updateRow } from "./write-row.ts";

export function createKey(db: DatabaseSync, wanted: NewKey, by: ChangeAuthor): IssuedKey | Failed {
  return transaction(db, () => {
    if (findWorkspace(db, wanted.workspaceId) === undefined) {
      return notFound("workspace", wanted.workspaceId);
    }
    const decided = rules.issueKey(wanted, by, countActive(db, wanted.workspaceId, by.at));
    if (isFailed(decided)) return decided;
    insertKey(db, decided.value);
    recordChanges(db, by, decided.changes);
    return decided.value;
  });
}

/** Returns the SELECT for rows that `keyRecordFromRow` reads. `more`: further columns. */
export function selectKeys(more?: string): string {
  const columns = more === undefined ? "" : `, ${more}`;
  return `SELECT keys.*, last_used_at${columns} FROM keys LEFT JOIN key_use ON key_use.key_id = keys.id`;
}

export function findKey(db: DatabaseSync, id: string): KeyRecord | undefined {
  const row = db.prepare(`${selectKeys()} WHERE keys.id = ?`).get(id);
  return row === undefined ? undefined : keyRecordFromRow(row);
}

export function listKeys(db: DatabaseSync, workspaceId?: string): KeyRecord[] {
  const order = "ORDER BY keys.created_at, keys.id";
  const rows =
    workspaceId === undefined
      ? db.prepare(`${selectKeys()} ${order}`).all()
      : db.prepare(`${selectKeys()} WHERE workspace_id = ? ${order}`).all(workspaceId);
  return rows.map(keyRecordFromRow);
}

export function setKey(
  db: DatabaseSync,
  id: string,
  settings: KeySettings,
  by: ChangeAuthor,
): KeyRecord | Failed {
  return change(db, id, by, (key) => rules.changeKey(key, settings, by), storeKey(db));
}

export function revokeKey(db: DatabaseSync, id: string, by: ChangeAuthor): KeyRecord | Failed {
  return change(db, id, by, (key) => rules.revokeKey(key, by), storeKey(db));
}

export function rotateKey(
  db: DatabaseSync,
  id: string,
  overlapMs: number,
  by: ChangeAuthor,
): RotatedKey | Failed {
  const store = (old: KeyRecord, rotated: RotatedKey): void => {
    insertKey(db, rotated);
    storeKey(db)(old, rotated.replaced);
  };
  const rule = (old: KeyRecord): Decision<RotatedKey> | Failed =>
    rules.rotateKey(old, overlapMs, by, countActive(db, old.workspaceId, by.at));
  return change(db, id, by, rule, store);
}

function countActive(db: DatabaseSync, workspaceId: string, at: number): number {
  const row = db
    .prepare(
      `SELECT count(*) AS active FROM keys
       WHERE workspace_id = ? AND revoked_at IS NULL AND ifnull(expires_at, ? + 1) > ?`,
    )
    .get(workspaceId, at, at);
  return number(row ?? {}, "active");
}

/** Stores what `rule` decides about the key. */
function change<T extends object>(
  db: DatabaseSync,
  id: string,
  by: ChangeAuthor,
  rule: (key: KeyRecord) => Decision<T> | Failed,
  store: (before: KeyRecord, value: T) => void,
): T | Failed {
  return transaction(db, () => {
    const key = findKey(db, id);
    if (key === undefined) return notFound("key", id);
    const decided = rule(key);
    if (isFailed(decided)) return decided;
    store(key, decided.value);
    recordChanges(db, by, decided.changes);
    return decided.value;
  });
}

function storeKey(db: DatabaseSync): (before: KeyRecord, after: KeyRecord) => void {
  return (before, after) => {
    updateRow(db, "keys", after.id, differingColumns(keyColumns(before), keyColumns(after)));
  };
}

function insertKey(db: DatabaseSync, { key, text }: IssuedKey): void {
  insertRow(db, "keys", { ...keyColumns(key), hash: hashKey(text) });
}
