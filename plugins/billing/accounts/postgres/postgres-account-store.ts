/** The `AccountStore` in PostgreSQL, which any number of gateways and commands may use at the same time. */
import type { Awaitable, Clock, Postgres, RunStatement } from "sluice-gateway/plugin";
import type {
  ChangeAuthor,
  Failed,
  FoundKey,
  IssuedKey,
  KeyRecord,
  KeySearch,
  ModelOverride,
  NewKey,
  NewWorkspace,
  PlanName,
  RotatedKey,
  Workspace,
} from "sluice-gateway/services";
import { number, optionalNumber, text } from "sluice-gateway/store";
import type {
  AccountStore,
  Change,
  ChangePage,
  KeySettings,
  KeyUse,
  Overrides,
  PendingPlan,
  Purchase,
  StoreChanges,
  StoredKey,
  WorkspaceSettings,
} from "../account-store.ts";
import { checkAmount } from "../check-amount.ts";
import { isFailed, type Decision } from "../decision.ts";
import { notFound } from "../failed.ts";
import * as keyRules from "../key-rules.ts";
import {
  changeFromRow,
  keyRecordFromRow,
  overrideColumns,
  overridesFromRows,
  workspaceColumns,
  workspaceFromRow,
} from "../rows.ts";
import * as workspaceRules from "../workspace-rules.ts";
import {
  findWorkspace,
  insertKey,
  insertRow,
  recordChanges,
  selectKeys,
  selectStoredKeys,
  storedKey,
  updateKey,
  updateWorkspace,
} from "./account-rows.ts";
import { KeyLookups } from "./key-lookups.ts";
import { searchStatement } from "./search-keys.ts";
import { PostgresTransactions } from "./transactions.ts";

/** Opens the accounts. The tables must exist. Rejects with StoreError. */
export async function openPostgresAccountStore(
  database: Postgres,
  clock: Pick<Clock, "after" | "monotonic">,
): Promise<PostgresAccountStore> {
  const store = new PostgresAccountStore(database, clock);
  await store.skipChanges();
  return store;
}

/** Does not own the connections of its database. */
export class PostgresAccountStore implements AccountStore {
  readonly transactions: PostgresTransactions;
  readonly #lookups: KeyLookups;
  #listener: () => Awaitable<void> = () => {};
  /** Number of the last change that `changed` has returned. */
  #seen = 0;

  constructor(database: Postgres, clock: Pick<Clock, "after" | "monotonic">) {
    const committed = (): Awaitable<void> => this.#listener();
    this.transactions = new PostgresTransactions({ database, clock, committed });
    this.#lookups = new KeyLookups(async (hashes) =>
      (await this.#query(`${selectStoredKeys} WHERE hash = ANY($1)`, [hashes])).map(storedKey),
    );
  }

  /** Makes `changed` begin after the changes that are there now. */
  async skipChanges(): Promise<void> {
    const [row] = await this.#query("SELECT coalesce(max(id), 0) AS newest FROM sluice.changes");
    this.#seen = number(row ?? {}, "newest");
  }

  findByHash(hash: string): Promise<StoredKey | undefined> {
    return this.#lookups.find(hash);
  }

  async hashOf(keyId: string): Promise<string | undefined> {
    const [row] = await this.#query("SELECT hash FROM sluice.keys WHERE id = $1", [keyId]);
    return row && text(row, "hash");
  }

  async changed(): Promise<StoreChanges> {
    // The change that was returned last is read again. If it is missing, the database has lost changes.
    const [row] = await this.#query(
      `SELECT max(id) AS newest, max(id) FILTER (WHERE action = 'network.models') AS overrides
       FROM sluice.changes WHERE id >= $1`,
      [this.#seen],
    );
    const newest = optionalNumber(row ?? {}, "newest") ?? 0;
    if (newest < this.#seen) {
      const changes = { keys: [], overrides: await this.overrides(), hasLostChanges: true };
      await this.skipChanges();
      return changes;
    }
    if (newest === this.#seen) return { keys: [], overrides: undefined, hasLostChanges: false };
    const overridesAt = optionalNumber(row ?? {}, "overrides") ?? 0;
    const changes = {
      keys: await this.#keysChangedAfter(this.#seen),
      overrides: overridesAt > this.#seen ? await this.overrides() : undefined,
      hasLostChanges: false,
    };
    this.#seen = newest;
    return changes;
  }

  async saveUse(uses: readonly KeyUse[]): Promise<void> {
    // In the order of ids, so that two gateways do not wait for each other in a circle.
    await this.#query(
      `INSERT INTO sluice.key_use AS known (key_id, last_used_at)
       SELECT id, max(used_at) FROM unnest($1::text[], $2::bigint[]) AS used (id, used_at)
         JOIN sluice.keys USING (id) GROUP BY id ORDER BY id
       ON CONFLICT (key_id) DO UPDATE SET last_used_at = excluded.last_used_at
         WHERE known.last_used_at < excluded.last_used_at`,
      [uses.map(({ keyId }) => keyId), uses.map(({ usedAt }) => usedAt)],
    );
  }

  createKey(wanted: NewKey, by: ChangeAuthor): Promise<IssuedKey | Failed> {
    return this.transactions.write(async (run) => {
      const { workspaceId } = wanted;
      const [workspace] = await run("SELECT 1 FROM sluice.workspaces WHERE id = $1", [workspaceId]);
      if (workspace === undefined) return notFound("workspace", workspaceId);
      const { value, changes } = keyRules.issueKey(wanted, by);
      await insertKey(run, value);
      await recordChanges(run, by, changes);
      return value;
    });
  }

  async findKey(id: string): Promise<KeyRecord | undefined> {
    const [row] = await this.#query(`${selectKeys()} WHERE keys.id = $1`, [id]);
    return row && keyRecordFromRow(row);
  }

  async listKeys(workspaceId?: string): Promise<readonly KeyRecord[]> {
    const where = "WHERE $1::text IS NULL OR workspace_id = $1";
    const statement = `${selectKeys()} ${where} ORDER BY keys.created_at, keys.id`;
    return (await this.#query(statement, [workspaceId ?? null])).map(keyRecordFromRow);
  }

  async searchKeys(search: KeySearch): Promise<readonly FoundKey[]> {
    const { statement, values } = searchStatement(search);
    return (await this.#query(statement, values)).map((row) => ({
      key: keyRecordFromRow(row),
      workspaceName: text(row, "workspace_name"),
    }));
  }

  setKey(id: string, settings: KeySettings, by: ChangeAuthor): Promise<KeyRecord | Failed> {
    return this.#changeKey(id, by, (key) => keyRules.changeKey(key, settings, by), updateKey);
  }

  revokeKey(id: string, by: ChangeAuthor): Promise<KeyRecord | Failed> {
    return this.#changeKey(id, by, (key) => keyRules.revokeKey(key, by), updateKey);
  }

  rotateKey(id: string, overlapMs: number, by: ChangeAuthor): Promise<RotatedKey | Failed> {
    return this.#changeKey<RotatedKey>(
      id,
      by,
      (key) => keyRules.rotateKey(key, overlapMs, by),
      async (run, old, rotated) => {
        await insertKey(run, rotated);
        await updateKey(run, old, rotated.replaced);
      },
    );
  }

  createWorkspace(wanted: NewWorkspace, by: ChangeAuthor): Promise<Workspace> {
    return this.transactions.write(async (run) => {
      const { value, changes } = workspaceRules.newWorkspace(wanted, by);
      await insertRow(run, "workspaces", workspaceColumns(value));
      await recordChanges(run, by, changes);
      return value;
    });
  }

  findWorkspace(id: string): Promise<Workspace | undefined> {
    return findWorkspace((statement, values) => this.#query(statement, values), id);
  }

  async listWorkspaces(limit?: number): Promise<readonly Workspace[]> {
    const statement = "SELECT * FROM sluice.workspaces ORDER BY created_at, id LIMIT $1";
    return (await this.#query(statement, [limit ?? null])).map(workspaceFromRow);
  }

  setWorkspace(
    id: string,
    settings: WorkspaceSettings,
    by: ChangeAuthor,
  ): Promise<Workspace | Failed> {
    return this.#changeWorkspace(id, by, (stored) =>
      workspaceRules.changeSettings(stored, settings),
    );
  }

  upgrade(id: string, plan: PlanName, by: ChangeAuthor): Promise<Workspace | Failed> {
    return this.#changeWorkspace(id, by, (stored) => workspaceRules.upgrade(stored, plan, by));
  }

  downgrade(id: string, pending: PendingPlan, by: ChangeAuthor): Promise<Workspace | Failed> {
    return this.#changeWorkspace(id, by, (stored) => workspaceRules.downgrade(stored, pending, by));
  }

  cancelDowngrade(id: string, by: ChangeAuthor): Promise<Workspace | Failed> {
    return this.#changeWorkspace(id, by, (stored) => workspaceRules.cancelDowngrade(stored, by));
  }

  purchase(id: string, amountMilliCu: number, by: ChangeAuthor): Promise<Purchase | Failed> {
    checkAmount(amountMilliCu);
    return this.transactions.write(async (run) => {
      const stored = await findWorkspace(run, id);
      if (stored === undefined) return notFound("workspace", id);
      const decided = workspaceRules.purchase(stored, amountMilliCu);
      if (isFailed(decided)) return decided;
      const { purchaseId, workspace } = decided.value;
      const bought = { workspace_id: id, amount_cu_milli: amountMilliCu, bought_at: by.at };
      await insertRow(run, "purchases", { id: purchaseId, ...bought });
      await updateWorkspace(run, stored, workspace);
      await recordChanges(run, by, decided.changes);
      return decided.value;
    });
  }

  async overrides(): Promise<Overrides> {
    const statement = "SELECT * FROM sluice.model_overrides ORDER BY network, place";
    return overridesFromRows(await this.#query(statement));
  }

  replaceOverrides(
    network: string,
    models: readonly ModelOverride[],
    by: ChangeAuthor,
  ): Promise<void> {
    return this.transactions.write(async (run) => {
      await run("DELETE FROM sluice.model_overrides WHERE network = $1", [network]);
      for (const [place, model] of models.entries()) {
        await insertRow(run, "model_overrides", overrideColumns(network, place, model));
      }
      await recordChanges(run, by, [{ action: "network.models", details: { network, models } }]);
    });
  }

  async changes(page: ChangePage = {}): Promise<readonly Change[]> {
    const { workspaceId, after = 0, limit } = page;
    const rows = await this.#query(
      `SELECT id, at, actor, action, workspace_id, key_id, details::text AS details, request_id
       FROM sluice.changes WHERE id > $1 AND ($2::text IS NULL OR workspace_id = $2)
       ORDER BY id LIMIT $3`,
      [after, workspaceId ?? null, limit ?? null],
    );
    return rows.map(changeFromRow);
  }

  transaction<T>(work: () => Awaitable<T>): Promise<T> {
    return this.transactions.run(work);
  }

  onCommit(listener: () => Awaitable<void>): void {
    this.#listener = listener;
  }

  close(): void {}

  async #keysChangedAfter(after: number): Promise<StoredKey[]> {
    const rows = await this.#query(
      `${selectStoredKeys}
       WHERE keys.id IN (SELECT key_id FROM sluice.changes WHERE id > $1 AND key_id IS NOT NULL)
         OR workspace_id IN (SELECT workspace_id FROM sluice.changes WHERE id > $1 AND key_id IS NULL)`,
      [after],
    );
    return rows.map(storedKey);
  }

  #changeKey<T extends object>(
    id: string,
    by: ChangeAuthor,
    rule: (key: KeyRecord) => Decision<T> | Failed,
    store: (run: RunStatement, before: KeyRecord, value: T) => Promise<void>,
  ): Promise<T | Failed> {
    return this.transactions.write(async (run) => {
      const [row] = await run(`${selectKeys()} WHERE keys.id = $1`, [id]);
      if (row === undefined) return notFound("key", id);
      const key = keyRecordFromRow(row);
      const decided = rule(key);
      if (isFailed(decided)) return decided;
      await store(run, key, decided.value);
      await recordChanges(run, by, decided.changes);
      return decided.value;
    });
  }

  #changeWorkspace(
    id: string,
    by: ChangeAuthor,
    rule: (stored: Workspace) => Decision<Workspace> | Failed,
  ): Promise<Workspace | Failed> {
    return this.transactions.write(async (run) => {
      const stored = await findWorkspace(run, id);
      if (stored === undefined) return notFound("workspace", id);
      const decided = rule(stored);
      if (isFailed(decided)) return decided;
      await updateWorkspace(run, stored, decided.value);
      await recordChanges(run, by, decided.changes);
      return decided.value;
    });
  }

  #query(statement: string, values?: readonly unknown[]): ReturnType<RunStatement> {
    return this.transactions.query(statement, values);
  }
}
