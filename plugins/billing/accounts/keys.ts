/** Operations of `AccountStore` on API keys. Each change is one transaction. */
import type { RunSql } from "sluice-gateway/plugin";
import type { ChangeAuthor, Failed, IssuedKey, KeyRecord } from "sluice-gateway/services";
import { number, text } from "sluice-gateway/internal/store";
import type { AccountStore } from "./account-store.ts";
import { recordChanges } from "./change-log.ts";
import { isFailed, notFound, type Decision } from "./decision.ts";
import type { JoinedSql } from "./joined-sql.ts";
import * as rules from "./key-rules.ts";
import { hashKey } from "./key-text.ts";
import {
  differingColumns,
  keyColumns,
  keyRecordFromRow,
  insertRow,
  updateRow,
  Search,
} from "./rows.ts";
import { lockWorkspace } from "./workspaces.ts";

type Operations =
  | "createKey"
  | "findKey"
  | "listKeys"
  | "searchKeys"
  | "setKey"
  | "revokeKey"
  | "rotateKey";

type Rule<T> = (key: KeyRecord, activeKeys: number) => Decision<T> | Failed;

export function keysIn(sql: JoinedSql): Pick<AccountStore, Operations> {
  /** Other changes of the workspace wait. `store`: writes what `rule` has decided. */
  const change = <T extends object>(
    id: string,
    by: ChangeAuthor,
    rule: Rule<T>,
    store: (run: RunSql, before: KeyRecord, value: T) => Promise<void>,
  ): Promise<T | Failed> =>
    sql.transaction(async (run) => {
      const found = await findKey(run, id);
      if (found === undefined) return notFound("key", id);
      await lockWorkspace(run, found.workspaceId);
      const key = (await findKey(run, id)) ?? found;
      const decided = rule(key, await countActive(run, key.workspaceId, by.at));
      if (isFailed(decided)) return decided;
      await store(run, key, decided.value);
      await recordChanges(run, by, decided.changes);
      return decided.value;
    });

  return {
    createKey: (wanted, by) =>
      sql.transaction(async (run) => {
        const { workspaceId } = wanted;
        if ((await lockWorkspace(run, workspaceId)) === undefined) {
          return notFound("workspace", workspaceId);
        }
        const decided = rules.issueKey(wanted, by, await countActive(run, workspaceId, by.at));
        if (isFailed(decided)) return decided;
        await insertKey(run, decided.value);
        await recordChanges(run, by, decided.changes);
        return decided.value;
      }),
    findKey: (id) => findKey(sql.query, id),
    async listKeys(workspaceId) {
      const search = new Search().add(workspaceId, (mark) => `workspace_id = ${mark}`);
      const statement = `${selectKeys()} ${search.where} ORDER BY keys.created_at, keys.id`;
      return (await sql.query(statement, search.values)).map(keyRecordFromRow);
    },
    async searchKeys({ workspaceId, text: wanted, activeAt, skip = 0, limit }) {
      const search = new Search()
        .add(workspaceId, (mark) => `keys.workspace_id = ${mark}`)
        .add(activeAt, isActive)
        .addText(wanted, "keys.id", "keys.name", "workspaces.id", "workspaces.name");
      const page = `LIMIT ${search.mark(limit)} OFFSET ${search.mark(skip)}`;
      // The numbers of keys have the order in which keys were created. Without a text, the search reads backwards from
      // the newest key and stops at the limit. A left join keeps SQLite from starting with the workspaces.
      const rows = await sql.query(
        `${selectKeys("workspaces.name AS workspace_name")}
         LEFT JOIN sluice.workspaces ON workspaces.id = keys.workspace_id
         ${search.where} ORDER BY keys.no DESC ${page}`,
        search.values,
      );
      return rows.map((row) => ({
        key: keyRecordFromRow(row),
        workspaceName: text(row, "workspace_name"),
      }));
    },
    setKey: (id, settings, by) =>
      change(id, by, (key) => rules.changeKey(key, settings, by), updateKey),
    revokeKey: (id, by) => change(id, by, (key) => rules.revokeKey(key, by), updateKey),
    rotateKey: (id, overlapMs, by) =>
      change(
        id,
        by,
        (old, activeKeys) => rules.rotateKey(old, overlapMs, by, activeKeys),
        async (run, old, rotated) => {
          await insertKey(run, rotated);
          await updateKey(run, old, rotated.replaced);
        },
      ),
  };
}

function selectKeys(more?: string): string {
  const columns = more === undefined ? "" : `, ${more}`;
  return `SELECT keys.*, last_used_at${columns}
    FROM sluice.keys LEFT JOIN sluice.key_use ON key_use.key_id = keys.id`;
}

function isActive(at: string): string {
  return `keys.revoked_at IS NULL AND (keys.expires_at IS NULL OR keys.expires_at > ${at})`;
}

async function findKey(run: RunSql, id: string): Promise<KeyRecord | undefined> {
  const [row] = await run(`${selectKeys()} WHERE keys.id = $1`, [id]);
  return row && keyRecordFromRow(row);
}

async function countActive(run: RunSql, workspaceId: string, at: number): Promise<number> {
  const statement = `SELECT count(*) AS active FROM sluice.keys WHERE workspace_id = $1 AND ${isActive("$2")}`;
  const [row] = await run(statement, [workspaceId, at]);
  return number(row ?? {}, "active");
}

function updateKey(run: RunSql, before: KeyRecord, after: KeyRecord): Promise<void> {
  return updateRow(run, "keys", after.id, differingColumns(keyColumns(before), keyColumns(after)));
}

function insertKey(run: RunSql, { key, text: secret }: IssuedKey): Promise<void> {
  return insertRow(run, "keys", { ...keyColumns(key), hash: hashKey(secret) });
}
