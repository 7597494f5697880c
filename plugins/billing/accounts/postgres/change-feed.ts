/**
 * Reads the changes of the accounts in PostgreSQL, in the order of commits, and reports to other replicas and to
 * commands which changes this replica has seen.
 */
import { randomUUID } from "node:crypto";
import type { RunStatement } from "sluice-gateway/plugin";
import { number, optionalNumber, text } from "sluice-gateway/store";
import type { Followers, StoreChanges } from "../account-store.ts";
import { readOverrides } from "./model-overrides.ts";
import { keysChangedAfter } from "./stored-keys.ts";

/** Maximum interval between two reports of a replica that it is running. */
const heardEveryMs = 1_000;
/** A replica that has not reported for this time is removed. */
const forgottenAfterMs = 3_600_000;

/**
 * Reads the changes, and reports the last one that was applied. A report is written only if it has changed or the last
 * one is old enough. It does not wait for the disk, because it may be lost.
 *
 * The change that was returned last is read again. If it is missing, the database has lost changes.
 */
const read = `WITH report AS (
    SELECT $1::text AS id, $2::text AS name, $3::bigint AS seen, sluice.now_ms() AS now,
      set_config('synchronous_commit', 'off', true)),
  reported AS (
    INSERT INTO sluice.followers (id, name, seen_change, heard_at)
    SELECT id, name, seen, now FROM report
    WHERE NOT EXISTS (SELECT 1 FROM sluice.followers AS same
      WHERE same.id = report.id AND same.seen_change = seen AND same.heard_at > now - ${heardEveryMs})
    ON CONFLICT (id) DO UPDATE SET seen_change = excluded.seen_change, heard_at = excluded.heard_at)
  SELECT max(changes.id) AS newest,
    max(changes.id) FILTER (WHERE action = 'network.models') AS overrides
  FROM sluice.changes WHERE changes.id >= $3`;

export class PostgresChangeFeed {
  readonly #query: RunStatement;
  /** Name of this replica, for people. */
  readonly #replica: string;
  /** Id of this start. */
  readonly #id = randomUUID();
  /** Number of the last change that `changed` has returned. */
  #seen = 0;
  /** Ends when the last report is written, or has failed. Undefined before the first. */
  #reported: Promise<unknown> | undefined;

  constructor(query: RunStatement, replica: string) {
    this.#query = query;
    this.#replica = replica;
  }

  /** Marks all existing changes as read, so that `changed` does not return them. */
  async skip(): Promise<void> {
    const [row] = await this.#query("SELECT coalesce(max(id), 0) AS newest FROM sluice.changes");
    this.#seen = number(row ?? {}, "newest");
  }

  /**
   * Returns the changes since the last call. Each call also reports that the changes of the previous call have been
   * applied.
   */
  async changed(): Promise<StoreChanges> {
    const report = this.#query(read, [this.#id, this.#replica, this.#seen]);
    this.#reported = report.catch(() => {});
    const [row] = await report;
    const newest = optionalNumber(row ?? {}, "newest") ?? 0;
    if (newest < this.#seen) {
      const changes = {
        keys: [],
        overrides: await readOverrides(this.#query),
        hasLostChanges: true,
      };
      await this.skip();
      return changes;
    }
    if (newest === this.#seen) return { keys: [], overrides: undefined, hasLostChanges: false };
    const overridesAt = optionalNumber(row ?? {}, "overrides") ?? 0;
    const changes = {
      keys: await keysChangedAfter(this.#query, this.#seen),
      overrides: overridesAt > this.#seen ? await readOverrides(this.#query) : undefined,
      hasLostChanges: false,
    };
    this.#seen = newest;
    return changes;
  }

  /** Returns the replicas that have reported in the last hour. */
  async followers(): Promise<Followers> {
    const rows = await this.#query(
      `SELECT newest, name, seen_change, sluice.now_ms() - heard_at AS silent_ms
       FROM (SELECT coalesce(max(id), 0) AS newest FROM sluice.changes) AS all_changes
       LEFT JOIN sluice.followers ON heard_at > sluice.now_ms() - ${forgottenAfterMs}
       ORDER BY name, id`,
    );
    const followers = rows
      .filter((row) => row["name"] !== null)
      .map((row) => ({
        name: text(row, "name"),
        seenChange: number(row, "seen_change"),
        silentMs: number(row, "silent_ms"),
      }));
    return { newestChange: number(rows[0] ?? {}, "newest"), followers };
  }

  /** Removes the reports of this replica, and those of replicas that have been killed. */
  async leave(): Promise<void> {
    if (this.#reported === undefined) return;
    // A report that is still on its way would write the row again.
    await this.#reported;
    const old = `heard_at < sluice.now_ms() - ${forgottenAfterMs}`;
    await this.#query(`DELETE FROM sluice.followers WHERE id = $1 OR ${old}`, [this.#id]);
  }
}
