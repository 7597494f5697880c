/** Reads from the accounts database for a running gateway: a key by its hash, and the changes since the last read. */
import type { DatabaseSync } from "node:sqlite";
import { number, text, transaction, type Row } from "sluice-gateway/store";
import type { KeyUse, StoredKey } from "../account-store.ts";
import { storedKeyFromRow, workspaceFromRow } from "../rows.ts";

export interface AccountsReader {
  /** Returns the key whose text has this SHA-256 (lower-case hex). Throws the errors of node:sqlite. */
  find(hash: string): StoredKey | undefined;
  /** Returns the hash of the key with this id. */
  hashOf(keyId: string): string | undefined;
  /**
   * Returns the keys that have changed, directly or through their workspace, since the last call. If nothing has
   * changed, it returns an empty list without reading the tables.
   */
  changed(): StoredKey[];
  /** Number of the newest change that `changed` has read. */
  readonly seen: number;
  /** Writes the times of last use, in one transaction. */
  saveUse(uses: readonly KeyUse[]): void;
}

/** Creates a reader. All earlier changes count as read. */
export function accountsReader(db: DatabaseSync): AccountsReader {
  const byHash = db.prepare("SELECT * FROM keys WHERE hash = ?");
  const hashById = db.prepare("SELECT hash FROM keys WHERE id = ?");
  const workspaceById = db.prepare("SELECT * FROM workspaces WHERE id = ?");
  const dataVersion = db.prepare("PRAGMA data_version");
  const newestChange = db.prepare("SELECT coalesce(max(id), 0) AS id FROM changes");
  const changedKeys = db.prepare(`
    SELECT * FROM keys
    WHERE id IN (SELECT key_id FROM changes WHERE id > :after AND key_id IS NOT NULL)
       OR workspace_id IN (SELECT workspace_id FROM changes WHERE id > :after AND key_id IS NULL)`);
  const use = db.prepare(`
    INSERT INTO key_use VALUES (?, ?) ON CONFLICT (key_id) DO UPDATE
    SET last_used_at = max(last_used_at, excluded.last_used_at)`);

  const stored = (row: Row): StoredKey => {
    const workspace = workspaceById.get(text(row, "workspace_id"));
    if (workspace === undefined) {
      throw new Error(`the workspace of key ${text(row, "id")} is missing`);
    }
    return storedKeyFromRow(row, workspaceFromRow(workspace));
  };
  const read = (statement: typeof dataVersion, column: string): number =>
    number(statement.get() ?? {}, column);

  // The version is read before the changes that it covers, so changes in between are read twice rather than missed.
  let seenVersion = read(dataVersion, "data_version");
  let seenChange = read(newestChange, "id");

  return {
    find(hash) {
      const row = byHash.get(hash);
      return row === undefined ? undefined : stored(row);
    },
    hashOf(keyId) {
      const row = hashById.get(keyId);
      return row === undefined ? undefined : text(row, "hash");
    },
    changed() {
      const version = read(dataVersion, "data_version");
      if (version === seenVersion) return [];
      const newest = read(newestChange, "id");
      const keys = newest === seenChange ? [] : changedKeys.all({ after: seenChange }).map(stored);
      seenVersion = version;
      seenChange = newest;
      return keys;
    },
    get seen() {
      return seenChange;
    },
    saveUse(uses) {
      transaction(db, () => {
        for (const { keyId, usedAt } of uses) use.run(keyId, usedAt);
      });
    },
  };
}
