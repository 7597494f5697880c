/** The log of changes is shown as the audit log, and a running gateway finds in it what it must read again. */
import type { RunSql, Sql } from "sluice-gateway/plugin";
import type { ChangeAuthor } from "sluice-gateway/services";
import type { AccountStore, Change, Followers, StoreChanges, Overrides } from "./account-store.ts";
import type { NewChange } from "./decision.ts";
import {
  changeColumns,
  changeFromRow,
  overrideColumns,
  overridesFromRows,
  insertRow,
  Search,
} from "./rows.ts";
import { gatewayMarks, number, optionalNumber } from "sluice-gateway/internal/store";
import { keysChangedAfter } from "./stored-keys.ts";
import type { JoinedSql } from "./joined-sql.ts";

/** Appends changes, in this order. Call it in the transaction that makes the changes. */
export async function recordChanges(
  run: RunSql,
  by: ChangeAuthor,
  changes: readonly NewChange[],
): Promise<void> {
  for (const change of changes) await insertRow(run, "changes", changeColumns(by, change));
}

const selectChanges = `SELECT id, at, actor, action, workspace_id, key_id, CAST(details AS text) AS details, request_id
  FROM sluice.changes`;

export function changeLog({ query }: Sql): Pick<AccountStore, "changes" | "searchChanges"> {
  const select = async (
    search: Search,
    order: "ASC" | "DESC",
    limit: number,
  ): Promise<Change[]> => {
    const end = `ORDER BY id ${order} LIMIT ${search.mark(limit)}`;
    const rows = await query(`${selectChanges} ${search.where} ${end}`, search.values);
    return rows.map(changeFromRow);
  };
  return {
    async changes({ workspaceId, after = 0, limit = Number.MAX_SAFE_INTEGER } = {}) {
      const search = new Search()
        .add(after, (mark) => `id > ${mark}`)
        .add(workspaceId, (mark) => `workspace_id = ${mark}`);
      return select(search, "ASC", limit);
    },
    async searchChanges({ workspaceId, text, before, limit }) {
      const columns = ["actor", "action", "workspace_id", "key_id", "request_id"];
      const search = new Search()
        .add(before, (mark) => `id < ${mark}`)
        .add(workspaceId, (mark) => `workspace_id = ${mark}`)
        .addText(text, ...columns, "CAST(details AS text)");
      return select(search, "DESC", limit);
    },
  };
}

/** The change that was returned last is read again. If it is missing, the store has lost changes. */
const readNewest = `SELECT max(id) AS newest,
    max(CASE WHEN action = 'network.models' THEN id END) AS overrides
  FROM sluice.changes WHERE id >= $1`;

const nothing: StoreChanges = { keys: [], overrides: undefined, hasLostChanges: false };

export class ChangeFeed {
  readonly #query: RunSql;
  #lastChange = 0;

  constructor(query: RunSql) {
    this.#query = query;
  }

  get lastChange(): number {
    return this.#lastChange;
  }

  /** Marks all existing changes as read, so that `changed` does not return them. */
  async skip(): Promise<void> {
    this.#lastChange = await newestChange(this.#query);
  }

  /** Without changes, it reads only the end of the log. */
  async changed(known?: number): Promise<StoreChanges> {
    if (known === this.#lastChange) return nothing;
    const [row = {}] = await this.#query(readNewest, [this.#lastChange]);
    const newest = optionalNumber(row, "newest") ?? 0;
    if (newest < this.#lastChange) {
      const overrides = await readOverrides(this.#query);
      await this.skip();
      return { keys: [], overrides, hasLostChanges: true };
    }
    if (newest === this.#lastChange) return nothing;
    const overridesAt = optionalNumber(row, "overrides") ?? 0;
    const changes = {
      keys: await keysChangedAfter(this.#query, this.#lastChange),
      overrides: overridesAt > this.#lastChange ? await readOverrides(this.#query) : undefined,
      hasLostChanges: false,
    };
    this.#lastChange = newest;
    return changes;
  }
}

async function newestChange(query: RunSql): Promise<number> {
  const [row] = await query("SELECT coalesce(max(id), 0) AS newest FROM sluice.changes");
  return number(row ?? {}, "newest");
}

/** The mark of a gateway that is the number of the last change that it has applied. */
export const followerMark = "accounts";

export async function readFollowers(query: RunSql): Promise<Followers> {
  const followers = await gatewayMarks(query, followerMark);
  return { newestChange: await newestChange(query), followers };
}

export async function readOverrides(run: RunSql): Promise<Overrides> {
  return overridesFromRows(
    await run("SELECT * FROM sluice.model_overrides ORDER BY network, place"),
  );
}

export function modelOverrides(
  sql: JoinedSql,
): Pick<AccountStore, "overrides" | "replaceOverrides"> {
  return {
    overrides: () => readOverrides(sql.query),
    replaceOverrides: (network, models, by) =>
      sql.transaction(async (run) => {
        // The log is written first, because its lock makes other replacements wait.
        await recordChanges(run, by, [{ action: "network.models", details: { network, models } }]);
        await run("DELETE FROM sluice.model_overrides WHERE network = $1", [network]);
        for (const [place, model] of models.entries()) {
          await insertRow(run, "model_overrides", overrideColumns(network, place, model));
        }
      }),
  };
}
