/** The `AccountStore` in PostgreSQL, which any number of gateways and commands may use at the same time. */
import type { Awaitable, Clock, Postgres, RunStatement } from "sluice-gateway/plugin";
import type {
  ChangeAuthor,
  ChangeSearch,
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
  WorkspaceSearch,
} from "sluice-gateway/services";
import { number, text } from "sluice-gateway/store";
import type {
  AccountStore,
  Change,
  ChangePage,
  Followers,
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
import { PostgresChangeFeed } from "./change-feed.ts";
import { KeyLookups } from "./key-lookups.ts";
import { KnownHashes } from "./known-hashes.ts";
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

/** Number of keys whose hashes are read per statement. */
const hashesPerRead = 10_000;
/** Maximum number of keys that do not seem to exist, and are looked up nevertheless, between two reads of the changes. */
const maxDoubted = 5;

/** Does not own the connections of its database. */
export class PostgresAccountStore implements AccountStore {
  readonly transactions: PostgresTransactions;
  readonly #lookups: KeyLookups;
  readonly #feed: PostgresChangeFeed;
  #listener: () => Awaitable<void> = () => {};
  #known: KnownHashes | undefined;
  /** False after the changes could not be read, so that `#known` may lack keys. */
  #isFollowing = false;
  #doubted = 0;

  constructor(database: Postgres, clock: Pick<Clock, "after" | "monotonic">) {
    const committed = (): Awaitable<void> => this.#listener();
    this.transactions = new PostgresTransactions({ database, clock, committed });
    this.#lookups = new KeyLookups(async (hashes) =>
      (await this.#query(`${selectStoredKeys} WHERE hash = ANY($1)`, [hashes])).map(storedKey),
    );
    this.#feed = new PostgresChangeFeed({
      query: (statement, values) => this.#query(statement, values),
      replica: database.replica,
      overrides: () => this.overrides(),
    });
  }

  /** Makes `changed` begin after the changes that are there now. */
  skipChanges(): Promise<void> {
    return this.#feed.skip();
  }

  /**
   * Reads the hashes of all keys. From then on, `findByHash` answers without a statement that a key does not exist; a
   * key of another replica exists when `changed` has returned it. A few such keys are looked up nevertheless, so that a
   * key that was just created works at once.
   */
  async loadHashes(): Promise<void> {
    const known = new KnownHashes();
    for (let after = 0; ;) {
      const rows = await this.#query(
        "SELECT no, hash FROM sluice.keys WHERE no > $1 ORDER BY no LIMIT $2",
        [after, hashesPerRead],
      );
      for (const row of rows) known.add(text(row, "hash"));
      const last = rows.at(-1);
      if (last === undefined || rows.length < hashesPerRead) break;
      after = number(last, "no");
    }
    this.#known = known;
  }

  findByHash(hash: string): Awaitable<StoredKey | undefined> {
    const isUnknown = this.#isFollowing && this.#known?.mayHave(hash) === false;
    return isUnknown && ++this.#doubted > maxDoubted ? undefined : this.#lookups.find(hash);
  }

  async changed(): Promise<StoreChanges> {
    this.#doubted = 0;
    try {
      const changes = await this.#feed.changed();
      if (changes.hasLostChanges && this.#known !== undefined) await this.loadHashes();
      for (const { hash } of changes.keys) this.#known?.add(hash);
      this.#isFollowing = true;
      return changes;
    } catch (error) {
      this.#isFollowing = false;
      throw error;
    }
  }

  followers(): Promise<Followers> {
    return this.#feed.followers();
  }

  async hashOf(keyId: string): Promise<string | undefined> {
    const [row] = await this.#query("SELECT hash FROM sluice.keys WHERE id = $1", [keyId]);
    return row && text(row, "hash");
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

  async searchWorkspaces({
    text: wanted,
    skip,
    limit,
  }: WorkspaceSearch): Promise<readonly Workspace[]> {
    const statement = `SELECT * FROM sluice.workspaces
      WHERE position(lower($1) IN lower(concat_ws(E'\\n', id, name))) > 0
      ORDER BY created_at DESC, id LIMIT $2 OFFSET $3`;
    return (await this.#query(statement, [wanted, limit, skip])).map(workspaceFromRow);
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

  async searchChanges(search: ChangeSearch): Promise<readonly Change[]> {
    const { workspaceId = null, text: wanted, before = null, limit } = search;
    const rows = await this.#query(
      `SELECT id, at, actor, action, workspace_id, key_id, details::text AS details, request_id
       FROM sluice.changes
       WHERE ($1::bigint IS NULL OR id < $1) AND ($2::text IS NULL OR workspace_id = $2)
         AND ($3 = '' OR position(lower($3) IN lower(concat_ws(E'\\n', actor, action, workspace_id, key_id,
           request_id, details::text))) > 0)
       ORDER BY id DESC LIMIT $4`,
      [before, workspaceId, wanted, limit],
    );
    return rows.map(changeFromRow);
  }

  transaction<T>(work: () => Awaitable<T>): Promise<T> {
    return this.transactions.run(work);
  }

  onCommit(listener: () => Awaitable<void>): void {
    this.#listener = listener;
  }

  /** The store can be closed although the database is away: it then forgets this replica after an hour. */
  async close(): Promise<void> {
    await this.#feed.leave().catch(() => {});
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
