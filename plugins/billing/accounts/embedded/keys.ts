/** Operations of `AccountStore` on API keys. Each call is one transaction. */
import type { DatabaseSync } from "node:sqlite";
import {
  capabilities,
  type ApiKey,
  type ChangeAuthor,
  type Failed,
  type IssuedKey,
  type KeyRecord,
  type NewKey,
  type RotatedKey,
} from "sluice-gateway/services";
import {
  number,
  oneOf,
  optionalNumber,
  optionalText,
  text,
  transaction,
  type Row,
} from "sluice-gateway/store";
import { recordChange } from "./change-log.ts";
import { conflict, notFound } from "../failed.ts";
import { keyState } from "../key-state.ts";
import { environments, hashKey, newId, newKeyText } from "../key-text.ts";
import { findWorkspace } from "./workspaces.ts";

export function createKey(db: DatabaseSync, wanted: NewKey, by: ChangeAuthor): IssuedKey | Failed {
  return transaction(db, () => {
    if (findWorkspace(db, wanted.workspaceId) === undefined) {
      return notFound("workspace", wanted.workspaceId);
    }
    const issued = insertKey(db, wanted, by);
    recordChange(db, by, {
      action: "key.create",
      workspaceId: wanted.workspaceId,
      keyId: issued.key.id,
      details: wanted,
    });
    return issued;
  });
}

/** Returns the SELECT for rows that `recordFromRow` reads. `more`: further columns. */
export function selectKeys(more?: string): string {
  const columns = more === undefined ? "" : `, ${more}`;
  return `SELECT keys.*, last_used_at${columns} FROM keys LEFT JOIN key_use ON key_use.key_id = keys.id`;
}

export function findKey(db: DatabaseSync, id: string): KeyRecord | undefined {
  const row = db.prepare(`${selectKeys()} WHERE keys.id = ?`).get(id);
  return row === undefined ? undefined : recordFromRow(row);
}

export function listKeys(db: DatabaseSync, workspaceId?: string): KeyRecord[] {
  const order = "ORDER BY keys.created_at, keys.id";
  const rows =
    workspaceId === undefined
      ? db.prepare(`${selectKeys()} ${order}`).all()
      : db.prepare(`${selectKeys()} WHERE workspace_id = ? ${order}`).all(workspaceId);
  return rows.map(recordFromRow);
}

export function revokeKey(db: DatabaseSync, id: string, by: ChangeAuthor): KeyRecord | Failed {
  return transaction(db, () => {
    const key = findKey(db, id);
    if (key === undefined) return notFound("key", id);
    if (key.revokedAt !== undefined) return key;
    db.prepare("UPDATE keys SET revoked_at = ? WHERE id = ?").run(by.at, id);
    recordChange(db, by, { action: "key.revoke", workspaceId: key.workspaceId, keyId: id });
    return { ...key, revokedAt: by.at };
  });
}

export function rotateKey(
  db: DatabaseSync,
  id: string,
  overlapMs: number,
  by: ChangeAuthor,
): RotatedKey | Failed {
  return transaction(db, () => {
    const old = findKey(db, id);
    if (old === undefined) return notFound("key", id);
    if (old.rotatedTo !== undefined) return conflict(`${id} was rotated to ${old.rotatedTo}`);
    const state = keyState(old, by.at);
    if (state !== "active") return conflict(`${id} is ${state}`);

    const life = old.expiresAt === undefined ? undefined : old.expiresAt - old.createdAt;
    const wanted = {
      ...old,
      capabilities: [...old.capabilities],
      expiresAt: life === undefined ? undefined : by.at + life,
    };
    const issued = insertKey(db, wanted, by);
    const oldExpiresAt = Math.min(old.expiresAt ?? Infinity, by.at + overlapMs);
    db.prepare("UPDATE keys SET expires_at = ?, rotated_to = ? WHERE id = ?").run(
      oldExpiresAt,
      issued.key.id,
      id,
    );
    const about = {
      workspaceId: old.workspaceId,
      details: { from: id, to: issued.key.id, overlapMs },
    };
    recordChange(db, by, { action: "key.create", ...about, keyId: issued.key.id });
    recordChange(db, by, { action: "key.rotate", ...about, keyId: id });
    return { ...issued, replaced: { ...old, expiresAt: oldExpiresAt, rotatedTo: issued.key.id } };
  });
}

function insertKey(db: DatabaseSync, wanted: NewKey, by: ChangeAuthor): IssuedKey {
  const keyText = newKeyText(wanted.environment);
  const id = newId("key");
  db.prepare(
    `INSERT INTO keys (id, workspace_id, name, hash, environment, capabilities, rps_limit, cu_limit_24h_milli,
       cu_limit_30d_milli, allowed_addresses, created_at, expires_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
  ).run(
    id,
    wanted.workspaceId,
    wanted.name,
    hashKey(keyText),
    wanted.environment,
    wanted.capabilities.join(" "),
    wanted.rpsLimit ?? null,
    wanted.cuLimit24hMilli ?? null,
    wanted.cuLimit30dMilli ?? null,
    wanted.allowedAddresses?.join(" ") ?? null,
    by.at,
    wanted.expiresAt ?? null,
  );
  const key: KeyRecord = {
    id,
    workspaceId: wanted.workspaceId,
    name: wanted.name,
    environment: wanted.environment,
    capabilities: new Set(wanted.capabilities),
    rpsLimit: wanted.rpsLimit,
    cuLimit24hMilli: wanted.cuLimit24hMilli,
    cuLimit30dMilli: wanted.cuLimit30dMilli,
    allowedAddresses: wanted.allowedAddresses,
    createdAt: by.at,
    expiresAt: wanted.expiresAt,
    revokedAt: undefined,
    lastUsedAt: undefined,
    rotatedTo: undefined,
  };
  return { key, text: keyText };
}

/** Converts a row of `keys`. Capabilities that this release does not know are ignored. */
export function keyFromRow(row: Row): ApiKey {
  const granted = text(row, "capabilities").split(" ");
  return {
    id: text(row, "id"),
    workspaceId: text(row, "workspace_id"),
    name: text(row, "name"),
    environment: oneOf(row, "environment", environments),
    capabilities: new Set(capabilities.filter((each) => granted.includes(each))),
    rpsLimit: optionalNumber(row, "rps_limit"),
    cuLimit24hMilli: optionalNumber(row, "cu_limit_24h_milli"),
    cuLimit30dMilli: optionalNumber(row, "cu_limit_30d_milli"),
    allowedAddresses: optionalText(row, "allowed_addresses")?.split(" "),
    createdAt: number(row, "created_at"),
    expiresAt: optionalNumber(row, "expires_at"),
    revokedAt: optionalNumber(row, "revoked_at"),
  };
}

export function recordFromRow(row: Row): KeyRecord {
  return {
    ...keyFromRow(row),
    lastUsedAt: optionalNumber(row, "last_used_at"),
    rotatedTo: optionalText(row, "rotated_to"),
  };
}
