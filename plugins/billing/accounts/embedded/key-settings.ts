/** `AccountStore.setKey`: changes of an existing key by an operator. */
import type { DatabaseSync } from "node:sqlite";
import type { ChangeAuthor, Failed, KeyRecord } from "sluice-gateway/services";
import { transaction } from "sluice-gateway/store";
import type { KeySettings } from "../account-store.ts";
import { recordChange } from "./change-log.ts";
import { conflict, notFound } from "../failed.ts";
import { keyState } from "../key-state.ts";
import { findKey } from "./keys.ts";

export function setKey(
  db: DatabaseSync,
  id: string,
  settings: KeySettings,
  by: ChangeAuthor,
): KeyRecord | Failed {
  return transaction(db, () => {
    const key = findKey(db, id);
    if (key === undefined) return notFound("key", id);
    const state = keyState(key, by.at);
    if (state !== "active") return conflict(`${id} is ${state}`);
    const { expiresAt } = settings;
    const outlives =
      expiresAt !== undefined && (expiresAt ?? Infinity) > (key.expiresAt ?? Infinity);
    if (key.rotatedTo !== undefined && outlives) {
      return conflict(
        `${id} was rotated to ${key.rotatedTo}: it cannot be valid for longer than its overlap`,
      );
    }
    for (const [column, value] of Object.entries(columnsOf(settings))) {
      if (value !== undefined)
        db.prepare(`UPDATE keys SET ${column} = ? WHERE id = ?`).run(value, id);
    }
    const { workspaceId } = key;
    recordChange(db, by, { action: "key.set", workspaceId, keyId: id, details: settings });
    return findKey(db, id) ?? notFound("key", id);
  });
}

/** Returns the settings as columns of `keys`. */
function columnsOf(settings: KeySettings): Record<string, string | number | null | undefined> {
  const { allowedAddresses } = settings;
  return {
    name: settings.name,
    capabilities: settings.capabilities?.join(" "),
    rps_limit: settings.rpsLimit,
    cu_limit_24h_milli: settings.cuLimit24hMilli,
    cu_limit_30d_milli: settings.cuLimit30dMilli,
    allowed_addresses: allowedAddresses === null ? null : allowedAddresses?.join(" "),
    expires_at: settings.expiresAt,
  };
}
