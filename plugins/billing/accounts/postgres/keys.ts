/** Operations of `AccountStore` on API keys, in PostgreSQL. A function that takes a ChangeAuthor needs a transaction. */
import type { Awaitable, RunStatement } from "sluice-gateway/plugin";
import type {
  ChangeAuthor,
  Failed,
  IssuedKey,
  KeyRecord,
  NewKey,
  RotatedKey,
} from "sluice-gateway/services";
import { number } from "sluice-gateway/store";
import type { KeySettings } from "../account-store.ts";
import { isFailed, type Decision } from "../decision.ts";
import { notFound } from "../failed.ts";
import * as rules from "../key-rules.ts";
import { hashKey } from "../key-text.ts";
import { differingColumns, keyColumns, keyRecordFromRow } from "../rows.ts";
import { recordChanges } from "./change-log.ts";
import { insertRow, updateRow } from "./write-row.ts";

export async function createKey(
  run: RunStatement,
  wanted: NewKey,
  by: ChangeAuthor,
): Promise<IssuedKey | Failed> {
  const { workspaceId } = wanted;
  const [workspace] = await run("SELECT 1 FROM sluice.workspaces WHERE id = $1", [workspaceId]);
  if (workspace === undefined) return notFound("workspace", workspaceId);
  const decided = rules.issueKey(wanted, by, await countActive(run, workspaceId, by.at));
  if (isFailed(decided)) return decided;
  await insertKey(run, decided.value);
  await recordChanges(run, by, decided.changes);
  return decided.value;
}

/** Returns the SELECT for rows that `keyRecordFromRow` reads. `more`: further columns. */
export function selectKeys(more?: string): string {
  const columns = more === undefined ? "" : `, ${more}`;
  return `SELECT keys.*, last_used_at${columns}
    FROM sluice.keys LEFT JOIN sluice.key_use ON key_use.key_id = keys.id`;
}

export async function findKey(run: RunStatement, id: string): Promise<KeyRecord | undefined> {
  const [row] = await run(`${selectKeys()} WHERE keys.id = $1`, [id]);
  return row && keyRecordFromRow(row);
}

export async function listKeys(
  run: RunStatement,
  workspaceId?: string,
): Promise<readonly KeyRecord[]> {
  const where = "WHERE $1::text IS NULL OR workspace_id = $1";
  const statement = `${selectKeys()} ${where} ORDER BY keys.created_at, keys.id`;
  return (await run(statement, [workspaceId ?? null])).map(keyRecordFromRow);
}

export function setKey(
  run: RunStatement,
  id: string,
  settings: KeySettings,
  by: ChangeAuthor,
): Promise<KeyRecord | Failed> {
  return change(run, id, by, (key) => rules.changeKey(key, settings, by), storeKey(run));
}

export function revokeKey(
  run: RunStatement,
  id: string,
  by: ChangeAuthor,
): Promise<KeyRecord | Failed> {
  return change(run, id, by, (key) => rules.revokeKey(key, by), storeKey(run));
}

export function rotateKey(
  run: RunStatement,
  id: string,
  overlapMs: number,
  by: ChangeAuthor,
): Promise<RotatedKey | Failed> {
  const store = async (old: KeyRecord, rotated: RotatedKey): Promise<void> => {
    await insertKey(run, rotated);
    await storeKey(run)(old, rotated.replaced);
  };
  const rule = async (old: KeyRecord): Promise<Decision<RotatedKey> | Failed> =>
    rules.rotateKey(old, overlapMs, by, await countActive(run, old.workspaceId, by.at));
  return change(run, id, by, rule, store);
}

async function countActive(run: RunStatement, workspaceId: string, at: number): Promise<number> {
  const [row] = await run(
    `SELECT count(*)::int AS active FROM sluice.keys
     WHERE workspace_id = $1 AND revoked_at IS NULL AND coalesce(expires_at, $2::bigint + 1) > $2`,
    [workspaceId, at],
  );
  return number(row ?? {}, "active");
}

/** Stores what `rule` decides about the key. */
async function change<T extends object>(
  run: RunStatement,
  id: string,
  by: ChangeAuthor,
  rule: (key: KeyRecord) => Awaitable<Decision<T> | Failed>,
  store: (before: KeyRecord, value: T) => Promise<void>,
): Promise<T | Failed> {
  const key = await findKey(run, id);
  if (key === undefined) return notFound("key", id);
  const decided = await rule(key);
  if (isFailed(decided)) return decided;
  await store(key, decided.value);
  await recordChanges(run, by, decided.changes);
  return decided.value;
}

function storeKey(run: RunStatement): (before: KeyRecord, after: KeyRecord) => Promise<void> {
  return (before, after) =>
    updateRow(run, "keys", after.id, differingColumns(keyColumns(before), keyColumns(after)));
}

function insertKey(run: RunStatement, { key, text }: IssuedKey): Promise<void> {
  return insertRow(run, "keys", { ...keyColumns(key), hash: hashKey(text) });
}
