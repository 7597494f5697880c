/**
 * Reads and writes the state of keys for a running gateway. Keys are looked up in batches, so that many unknown keys do
 * not reach the store one by one.
 */
import type { RunSql } from "sluice-gateway/plugin";
import { text, valueRows, type Row, StoreError } from "sluice-gateway/internal/store";
import type { KeyUse, StoredKey } from "./account-store.ts";
import { workspaceColumnNames } from "./tables.ts";
import { storedKeyFromRow, workspaceFromRow } from "./rows.ts";

const selectStoredKeys = `SELECT keys.*,
    ${workspaceColumnNames.map((name) => `workspaces.${name} AS of_workspace_${name}`).join(", ")}
  FROM sluice.keys JOIN sluice.workspaces ON workspaces.id = keys.workspace_id`;

const hashesPerRead = 10_000;
const usesPerWrite = 1_000;

function storedKey(row: Row): StoredKey {
  const workspace = workspaceColumnNames.map((name) => [name, row[`of_workspace_${name}`]]);
  return storedKeyFromRow(row, workspaceFromRow(Object.fromEntries(workspace) as Row));
}

export async function findByHashes(
  run: RunSql,
  hashes: readonly string[],
): Promise<readonly StoredKey[]> {
  const statement = `${selectStoredKeys} WHERE hash IN ${valueRows(1, hashes.length)}`;
  return (await run(statement, hashes)).map(storedKey);
}

export async function keysChangedAfter(run: RunSql, change: number): Promise<readonly StoredKey[]> {
  const rows = await run(
    `${selectStoredKeys}
     WHERE keys.id IN (SELECT key_id FROM sluice.changes WHERE id > $1 AND key_id IS NOT NULL)
       OR keys.workspace_id IN
         (SELECT workspace_id FROM sluice.changes WHERE id > $1 AND key_id IS NULL)`,
    [change],
  );
  return rows.map(storedKey);
}

export async function hashOf(run: RunSql, keyId: string): Promise<string | undefined> {
  const [row] = await run("SELECT hash FROM sluice.keys WHERE id = $1", [keyId]);
  return row && text(row, "hash");
}

export async function readHashes(run: RunSql): Promise<KnownHashes> {
  const known = new KnownHashes();
  for (let after = ""; ;) {
    const rows = await run("SELECT hash FROM sluice.keys WHERE hash > $1 ORDER BY hash LIMIT $2", [
      after,
      hashesPerRead,
    ]);
    for (const row of rows) known.add(text(row, "hash"));
    const last = rows.at(-1);
    if (last === undefined || rows.length < hashesPerRead) return known;
    after = text(last, "hash");
  }
}

/** Keys that are missing, because a backup was restored, are left out. */
export async function saveUse(run: RunSql, uses: readonly KeyUse[]): Promise<void> {
  const latest = new Map<string, number>();
  for (const { keyId, usedAt } of uses) {
    latest.set(keyId, Math.max(usedAt, latest.get(keyId) ?? 0));
  }
  // The keys are in the order of their ids, so that two gateways cannot wait for each other.
  const sorted = [...latest].toSorted(([a], [b]) => (a < b ? -1 : 1));
  for (let first = 0; first < sorted.length; first += usesPerWrite) {
    const rows = sorted.slice(first, first + usesPerWrite);
    await run(
      `WITH used (id, used_at) AS (VALUES ${valueRows(rows.length, 2)})
       INSERT INTO sluice.key_use AS known (key_id, last_used_at)
       SELECT keys.id, CAST(used_at AS bigint) FROM used JOIN sluice.keys ON keys.id = used.id
         WHERE true ORDER BY keys.id
       ON CONFLICT (key_id) DO UPDATE SET last_used_at = excluded.last_used_at
         WHERE known.last_used_at < excluded.last_used_at`,
      rows.flat(),
    );
  }
}

/** Size of the filter: 4 MiB. With 4 million keys, 1 in 50 unknown keys is still looked up in the store. */
const bits = 2 ** 25;
const probes = 6;

/**
 * A Bloom filter of the hashes of all keys. Keys are never deleted, so hashes never have to be removed. Hashes are
 * SHA-256 in hex, so their digits are as good as the results of independent hash functions.
 */
export class KnownHashes {
  readonly #words = new Uint32Array(bits / 32);

  add(hash: string): void {
    for (let probe = 0; probe < probes; probe++) {
      const bit = bitOf(hash, probe);
      this.#words[bit >>> 5] = (this.#words[bit >>> 5] ?? 0) | (1 << (bit & 31));
    }
  }

  /** Returns false if the hash was not added. Returns true if it was, and rarely if it was not. */
  mayHave(hash: string): boolean {
    for (let probe = 0; probe < probes; probe++) {
      const bit = bitOf(hash, probe);
      if (((this.#words[bit >>> 5] ?? 0) & (1 << (bit & 31))) === 0) return false;
    }
    return true;
  }
}

function bitOf(hash: string, probe: number): number {
  return Number.parseInt(hash.slice(probe * 8, probe * 8 + 8), 16) % bits;
}

export type ReadKeys = (hashes: readonly string[]) => Promise<readonly StoredKey[]>;

const maxBatch = 500;
/** Maximum number of hashes that wait. Further ones are refused, so that a slow database does not fill the memory. */
const maxWaiting = 5_000;

/** One statement is in flight at a time. Hashes that are requested in the meantime are looked up by the next one. */
export class KeyLookups {
  readonly #read: ReadKeys;
  readonly #waiting = new Map<string, PromiseWithResolvers<StoredKey | undefined>>();
  #isReading = false;

  constructor(read: ReadKeys) {
    this.#read = read;
  }

  /** Rejects with the error of the statement, or with StoreError if too many hashes wait. */
  find(hash: string): Promise<StoredKey | undefined> {
    const joined = this.#waiting.get(hash);
    if (joined !== undefined) return joined.promise;
    if (this.#waiting.size >= maxWaiting) return Promise.reject(tooMany());
    const waiting = Promise.withResolvers<StoredKey | undefined>();
    this.#waiting.set(hash, waiting);
    if (!this.#isReading) void this.#readAll();
    return waiting.promise;
  }

  async #readAll(): Promise<void> {
    this.#isReading = true;
    while (this.#waiting.size > 0) {
      const batch = new Map([...this.#waiting].slice(0, maxBatch));
      for (const hash of batch.keys()) this.#waiting.delete(hash);
      try {
        const found = await this.#read([...batch.keys()]);
        const byHash = new Map(found.map((stored) => [stored.hash, stored]));
        for (const [hash, { resolve }] of batch) resolve(byHash.get(hash));
      } catch (error) {
        for (const { reject } of batch.values()) reject(error);
      }
    }
    this.#isReading = false;
  }
}

function tooMany(): StoreError {
  return new StoreError(
    "SLUICE_STORE_BUSY",
    `more than ${maxWaiting} keys wait for the store`,
    "Check the load of the disk, or of the database.",
  );
}
