/** The accounts database: workspaces, keys, purchases and the append-only log of changes. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { openDatabase, StoreError } from "sluice-gateway/store";

function accountsPath(dataDir: string): string {
  return join(dataDir, "accounts.db");
}

/**
 * Times are in milliseconds since 1970, amounts in milli-CU. Only the SHA-256 of a key's text is stored, in hex.
 * `key_use` is separate from `keys` because it is written often and in bulk, and a use does not change the key.
 */
const migrations: readonly string[] = [
  `
  CREATE TABLE workspaces (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    plan TEXT NOT NULL,
    pending_plan TEXT,
    pending_plan_at INTEGER,
    purchased_total_cu_milli INTEGER NOT NULL DEFAULT 0 CHECK (purchased_total_cu_milli >= 0),
    overage_limit_cu_milli INTEGER CHECK (overage_limit_cu_milli >= 0),
    created_at INTEGER NOT NULL,
    CHECK ((pending_plan IS NULL) = (pending_plan_at IS NULL))
  ) STRICT;

  CREATE TABLE keys (
    id TEXT PRIMARY KEY,
    workspace_id TEXT NOT NULL REFERENCES workspaces (id),
    name TEXT NOT NULL,
    hash TEXT NOT NULL UNIQUE CHECK (length(hash) = 64),
    environment TEXT NOT NULL,
    capabilities TEXT NOT NULL,
    rps_limit REAL CHECK (rps_limit > 0),
    cu_limit_24h_milli INTEGER CHECK (cu_limit_24h_milli >= 0),
    cu_limit_30d_milli INTEGER CHECK (cu_limit_30d_milli >= 0),
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    revoked_at INTEGER,
    rotated_to TEXT REFERENCES keys (id)
  ) STRICT;
  CREATE INDEX keys_of_workspace ON keys (workspace_id);

  CREATE TABLE key_use (
    key_id TEXT PRIMARY KEY REFERENCES keys (id),
    last_used_at INTEGER NOT NULL
  ) STRICT, WITHOUT ROWID;

  CREATE TABLE purchases (
    id TEXT PRIMARY KEY,
    workspace_id TEXT NOT NULL REFERENCES workspaces (id),
    amount_cu_milli INTEGER NOT NULL CHECK (amount_cu_milli > 0),
    bought_at INTEGER NOT NULL
  ) STRICT;
  CREATE INDEX purchases_of_workspace ON purchases (workspace_id);

  CREATE TABLE changes (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    at INTEGER NOT NULL,
    actor TEXT NOT NULL,
    action TEXT NOT NULL,
    workspace_id TEXT NOT NULL,
    key_id TEXT,
    details TEXT NOT NULL
  ) STRICT;
  CREATE TRIGGER changes_are_not_updated BEFORE UPDATE ON changes
    BEGIN SELECT RAISE(ABORT, 'the change log is append-only'); END;
  CREATE TRIGGER changes_are_not_deleted BEFORE DELETE ON changes
    BEGIN SELECT RAISE(ABORT, 'the change log is append-only'); END;
  `,
  // The `workspace_id` of a change of the deployment is empty.
  `
  ALTER TABLE changes ADD COLUMN request_id TEXT;

  CREATE TABLE model_overrides (
    network TEXT NOT NULL,
    place INTEGER NOT NULL,
    id TEXT NOT NULL,
    enabled INTEGER NOT NULL CHECK (enabled IN (0, 1)),
    owned_by TEXT,
    price_coefficient INTEGER CHECK (price_coefficient >= 0),
    PRIMARY KEY (network, id)
  ) STRICT, WITHOUT ROWID;
  `,
  // REPLACE deletes rows without running the delete trigger, so a trigger on inserts prevents it.
  `
  ALTER TABLE keys ADD COLUMN allowed_addresses TEXT;

  CREATE INDEX changes_of_workspace ON changes (workspace_id, id);
  CREATE TRIGGER changes_are_not_replaced BEFORE INSERT ON changes
    WHEN EXISTS (SELECT 1 FROM changes WHERE id = NEW.id)
    BEGIN SELECT RAISE(ABORT, 'the change log is append-only'); END;
  `,
  // While a request is in flight, `owner` is set and `until` is the end of its lease. After that, `status` is set and
  // `until` is the end of the replays.
  `
  CREATE TABLE idempotency_slots (
    api_key_id TEXT NOT NULL,
    key TEXT NOT NULL,
    fingerprint TEXT NOT NULL CHECK (length(fingerprint) = 64),
    owner TEXT,
    until INTEGER NOT NULL,
    status INTEGER,
    content_type TEXT,
    content_encoding TEXT,
    body BLOB,
    PRIMARY KEY (api_key_id, key),
    CHECK ((owner IS NULL) = (status IS NOT NULL)),
    CHECK ((status IS NULL) = (body IS NULL))
  ) STRICT;
  CREATE INDEX idempotency_slots_until ON idempotency_slots (until);
  CREATE UNIQUE INDEX idempotency_slots_owner ON idempotency_slots (owner) WHERE owner IS NOT NULL;
  `,
];

/** Schema version that this release writes. */
export const accountsVersion = migrations.length;

/**
 * Opens the accounts of a data folder, for any number of processes; a missing database is created. Throws StoreError.
 */
export function openAccountsDatabase(dataDir: string): DatabaseSync {
  return openDatabase(accountsPath(dataDir), migrations);
}

/** Checks the database at start, so that damage is not found by a request. Throws StoreError. */
export function refuseDamaged(db: DatabaseSync): void {
  const found = db.prepare("PRAGMA quick_check(1)").get()?.["quick_check"];
  if (found === "ok") return;
  throw new StoreError(
    "SLUICE_STORE_CORRUPT",
    `accounts.db is damaged (${String(found)})`,
    "Restore accounts.db from a backup, together with its -wal file.",
  );
}

/** Returns true if a key of the data folder was used. False if that cannot be found out. */
export function hasUsedKeys(dataDir: string): boolean {
  const file = accountsPath(dataDir);
  if (!existsSync(file)) return false;
  try {
    using db = new DatabaseSync(file, { readOnly: true, timeout: 5_000 });
    return db.prepare("SELECT 1 FROM key_use LIMIT 1").get() !== undefined;
  } catch {
    // The accounts are opened after this and report the reason.
    return false;
  }
}
