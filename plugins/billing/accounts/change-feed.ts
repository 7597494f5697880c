/** Reads the changes of the accounts, in the order of commits, and which of them the gateways have applied. */
import type { RunSql } from "sluice-gateway/plugin";
import { gatewayMarks, number, optionalNumber } from "sluice-gateway/internal/store";
import type { Followers, StoreChanges } from "./account-store.ts";
import { readOverrides } from "./model-overrides.ts";
import { keysChangedAfter } from "./stored-keys.ts";

/** The change that was returned last is read again. If it is missing, the store has lost changes. */
const readNewest = `SELECT max(id) AS newest,
    max(CASE WHEN action = 'network.models' THEN id END) AS overrides
  FROM sluice.changes WHERE id >= $1`;

const nothing: StoreChanges = { keys: [], overrides: undefined, hasLostChanges: false };

export class ChangeFeed {
  readonly #query: RunSql;
  #seen = 0;

  constructor(query: RunSql) {
    this.#query = query;
  }

  /** Number of the last change that `changed` has returned. */
  get seen(): number {
    return this.#seen;
  }

  /** Marks all existing changes as read, so that `changed` does not return them. */
  async skip(): Promise<void> {
    this.#seen = await newestChange(this.#query);
  }

  /** See `AccountStore.changed`. If there are no changes, it reads only the end of the log. */
  async changed(known?: number): Promise<StoreChanges> {
    if (known === this.#seen) return nothing;
    const [row = {}] = await this.#query(readNewest, [this.#seen]);
    const newest = optionalNumber(row, "newest") ?? 0;
    if (newest < this.#seen) {
      const overrides = await readOverrides(this.#query);
      await this.skip();
      return { keys: [], overrides, hasLostChanges: true };
    }
    if (newest === this.#seen) return nothing;
    const overridesAt = optionalNumber(row, "overrides") ?? 0;
    const changes = {
      keys: await keysChangedAfter(this.#query, this.#seen),
      overrides: overridesAt > this.#seen ? await readOverrides(this.#query) : undefined,
      hasLostChanges: false,
    };
    this.#seen = newest;
    return changes;
  }
}

/** Returns the number of the newest change. 0 if there is none. */
async function newestChange(query: RunSql): Promise<number> {
  const [row] = await query("SELECT coalesce(max(id), 0) AS newest FROM sluice.changes");
  return number(row ?? {}, "newest");
}

/** The mark of a gateway that is the number of the last change that it has applied. */
export const followerMark = "accounts";

/** Reads which changes the gateways on the same PostgreSQL have applied. */
export async function readFollowers(query: RunSql): Promise<Followers> {
  const followers = (await gatewayMarks(query, followerMark)).map(({ name, mark, silentMs }) => ({
    name,
    seenChange: mark,
    silentMs,
  }));
  return { newestChange: await newestChange(query), followers };
}
