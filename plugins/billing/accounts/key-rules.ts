/** The rules for changes of API keys, without a database. */
import {
  capabilities,
  type ApiKey,
  type Capability,
  type ChangeAuthor,
  type Failed,
  type IssuedKey,
  type KeyRecord,
  type KeyState,
  type NewKey,
  type RotatedKey,
} from "sluice-gateway/services";
import type { KeySettings } from "./account-store.ts";
import { conflict, type Decision } from "./decision.ts";
import { newId, newKeyText } from "./key-text.ts";

/** The workspace must exist. `activeKeys`: the number of active keys that it has. */
export function issueKey(
  wanted: NewKey,
  by: ChangeAuthor,
  activeKeys: number,
): Decision<IssuedKey> | Failed {
  const tooMany = refuseKeys(activeKeys + 1, by);
  if (tooMany !== undefined) return tooMany;
  const issued = newKey(wanted, by);
  const { workspaceId } = wanted;
  const change = {
    action: "key.create",
    workspaceId,
    keyId: issued.key.id,
    details: wanted,
  } as const;
  return { value: issued, changes: [change] };
}

export function changeKey(
  key: KeyRecord,
  settings: KeySettings,
  by: ChangeAuthor,
): Decision<KeyRecord> | Failed {
  const { id, workspaceId } = key;
  const state = keyState(key, by.at);
  if (state !== "active") return conflict(`${id} is ${state}`);
  const { expiresAt } = settings;
  const outlives = expiresAt !== undefined && (expiresAt ?? Infinity) > (key.expiresAt ?? Infinity);
  if (key.rotatedTo !== undefined && outlives) {
    return conflict(
      `${id} was rotated to ${key.rotatedTo}: it cannot be valid for longer than its overlap`,
    );
  }
  const value: KeyRecord = {
    ...key,
    name: settings.name ?? key.name,
    capabilities:
      settings.capabilities === undefined ? key.capabilities : capabilitySet(settings.capabilities),
    rpsLimit: given(settings.rpsLimit, key.rpsLimit),
    cuLimit24hMilli: given(settings.cuLimit24hMilli, key.cuLimit24hMilli),
    cuLimit30dMilli: given(settings.cuLimit30dMilli, key.cuLimit30dMilli),
    allowedAddresses: given(settings.allowedAddresses, key.allowedAddresses),
    expiresAt: given(expiresAt, key.expiresAt),
  };
  return { value, changes: [{ action: "key.set", workspaceId, keyId: id, details: settings }] };
}

export function revokeKey(key: KeyRecord, by: ChangeAuthor): Decision<KeyRecord> {
  if (key.revokedAt !== undefined) return { value: key, changes: [] };
  const { id, workspaceId } = key;
  return {
    value: { ...key, revokedAt: by.at },
    changes: [{ action: "key.revoke", workspaceId, keyId: id }],
  };
}

export function rotateKey(
  old: KeyRecord,
  overlapMs: number,
  by: ChangeAuthor,
  activeKeys: number,
): Decision<RotatedKey> | Failed {
  const { id, workspaceId } = old;
  if (old.rotatedTo !== undefined) return conflict(`${id} was rotated to ${old.rotatedTo}`);
  const state = keyState(old, by.at);
  if (state !== "active") return conflict(`${id} is ${state}`);
  // Without an overlap, the successor takes the place of the old key, so a full workspace can still rotate its keys.
  const tooMany = overlapMs > 0 ? refuseKeys(activeKeys + 1, by) : undefined;
  if (tooMany !== undefined) return tooMany;

  const life = old.expiresAt === undefined ? undefined : old.expiresAt - old.createdAt;
  const issued = newKey(
    {
      ...old,
      capabilities: [...old.capabilities],
      expiresAt: life === undefined ? undefined : by.at + life,
    },
    by,
  );
  const replaced = {
    ...old,
    expiresAt: Math.min(old.expiresAt ?? Infinity, by.at + overlapMs),
    rotatedTo: issued.key.id,
  };
  const details = { from: id, to: issued.key.id, overlapMs };
  return {
    value: { ...issued, replaced },
    changes: [
      { action: "key.create", workspaceId, keyId: issued.key.id, details },
      { action: "key.rotate", workspaceId, keyId: id, details },
    ],
  };
}

function refuseKeys(
  wanted: number,
  { maxActiveKeys = Infinity }: ChangeAuthor,
): Failed | undefined {
  if (wanted <= maxActiveKeys) return undefined;
  return conflict(
    `the plan of the workspace allows ${maxActiveKeys} active keys; revoke one, or change to a higher plan`,
  );
}

function newKey(wanted: NewKey, by: ChangeAuthor): IssuedKey {
  const key: KeyRecord = {
    id: newId("key"),
    workspaceId: wanted.workspaceId,
    name: wanted.name,
    environment: wanted.environment,
    capabilities: capabilitySet(wanted.capabilities),
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
  return { key, text: newKeyText(wanted.environment) };
}

/** Returns the new value of a setting that can be removed. */
function given<T>(setting: T | null | undefined, current: T | undefined): T | undefined {
  return setting === undefined ? current : (setting ?? undefined);
}

/** Returns the capabilities in the order in which every store and every answer lists them. */
function capabilitySet(wanted: readonly Capability[]): ReadonlySet<Capability> {
  return new Set(capabilities.filter((each) => wanted.includes(each)));
}

export function keyState(key: ApiKey, now: number): KeyState {
  if (key.revokedAt !== undefined) return "revoked";
  return key.expiresAt !== undefined && now >= key.expiresAt ? "expired" : "active";
}
