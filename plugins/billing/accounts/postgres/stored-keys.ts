/** Reads and writes the state of keys in PostgreSQL for a running gateway. */
import type { RunStatement } from "sluice-gateway/plugin";
import { number, text, type Row } from "sluice-gateway/store";
import { isObject } from "sluice-gateway/toolkit";
import type { KeyUse, StoredKey } from "../account-store.ts";
import { storedKeyFromRow, workspaceFromRow } from "../rows.ts";
import { KnownHashes } from "./known-hashes.ts";

/** The SELECT for rows that `storedKey` reads. */
const selectStoredKeys = `SELECT keys.*, row_to_json(workspaces) AS workspace
  FROM sluice.keys JOIN sluice.workspaces ON workspaces.id = keys.workspace_id`;

/** Number of keys whose hashes are read per statement. */
const hashesPerRead = 10_000;

function storedKey(row: Row): StoredKey {
  const { workspace } = row;
  if (!isObject(workspace)) throw new TypeError("column workspace is not an object");
  return storedKeyFromRow(row, workspaceFromRow(workspace));
}

export async function findByHashes(
  run: RunStatement,
  hashes: readonly string[],
): Promise<readonly StoredKey[]> {
  return (await run(`${selectStoredKeys} WHERE hash = ANY($1)`, [hashes])).map(storedKey);
}

/** Returns the keys that have changed, directly or through their workspace, after the change with this number. */
export async function keysChangedAfter(
  run: RunStatement,
  change: number,
): Promise<readonly StoredKey[]> {
  const rows = await run(
    `${selectStoredKeys}
     WHERE keys.id IN (SELECT key_id FROM sluice.changes WHERE id > $1 AND key_id IS NOT NULL)
       OR workspace_id IN (SELECT workspace_id FROM sluice.changes WHERE id > $1 AND key_id IS NULL)`,
    [change],
  );
  return rows.map(storedKey);
}

export async function hashOf(run: RunStatement, keyId: string): Promise<string | undefined> {
  const [row] = await run("SELECT hash FROM sluice.keys WHERE id = $1", [keyId]);
  return row && text(row, "hash");
}

/** Reads the hashes of all keys. */
export async function readHashes(run: RunStatement): Promise<KnownHashes> {
  const known = new KnownHashes();
  for (let after = 0; ;) {
    const rows = await run("SELECT no, hash FROM sluice.keys WHERE no > $1 ORDER BY no LIMIT $2", [
      after,
      hashesPerRead,
    ]);
    for (const row of rows) known.add(text(row, "hash"));
    const last = rows.at(-1);
    if (last === undefined || rows.length < hashesPerRead) return known;
    after = number(last, "no");
  }
}

/** Writes the times of last use. */
export async function saveUse(run: RunStatement, uses: readonly KeyUse[]): Promise<void> {
  // The keys are in the order of their ids, so that two gateways cannot deadlock.
  await run(
    `INSERT INTO sluice.key_use AS known (key_id, last_used_at)
     SELECT id, max(used_at) FROM unnest($1::text[], $2::bigint[]) AS used (id, used_at)
       JOIN sluice.keys USING (id) GROUP BY id ORDER BY id
     ON CONFLICT (key_id) DO UPDATE SET last_used_at = excluded.last_used_at
       WHERE known.last_used_at < excluded.last_used_at`,
    [uses.map(({ keyId }) => keyId), uses.map(({ usedAt }) => usedAt)],
  );
}
