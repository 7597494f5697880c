/** Reports to commands and to the other gateways on the same store which changes this gateway has applied. */
import { randomUUID } from "node:crypto";
import type { Clock, RunSql } from "sluice-gateway/plugin";
import { number, text } from "sluice-gateway/store";
import type { Followers } from "./account-store.ts";
import { newestChange } from "./change-feed.ts";

/** Maximum interval between two reports of a gateway that it is running. */
const heardEveryMs = 1_000;
/** A gateway that has not reported for this time is removed. */
const forgottenAfterMs = 3_600_000;

export class FollowerReports {
  readonly #query: RunSql;
  readonly #clock: Pick<Clock, "monotonic">;
  /** Name of this gateway, for people. */
  readonly #name: string;
  /** Id of this start. */
  readonly #id = randomUUID();
  #last: { readonly seen: number; readonly at: number } | undefined;
  /** Ends when the last report is written, or has failed. */
  #reported: Promise<unknown> = Promise.resolve();

  constructor(query: RunSql, clock: Pick<Clock, "monotonic">, name: string) {
    this.#query = query;
    this.#clock = clock;
    this.#name = name;
  }

  /** Writes a report only if `seen` has changed or the last one is old enough. `seen`: the last change that was applied. */
  async report(seen: number): Promise<void> {
    const at = this.#clock.monotonic();
    if (this.#last?.seen === seen && at - this.#last.at < heardEveryMs) return;
    const report = this.#query(
      `INSERT INTO sluice.followers (id, name, seen_change, heard_at)
       VALUES ($1, $2, $3, sluice.now_ms()) ON CONFLICT (id) DO UPDATE
       SET seen_change = excluded.seen_change, heard_at = excluded.heard_at`,
      [this.#id, this.#name, seen],
    );
    this.#reported = report.catch(() => {});
    await report;
    this.#last = { seen, at };
  }

  /** Returns the gateways that have reported in the last hour. */
  async followers(): Promise<Followers> {
    const rows = await this.#query(
      `SELECT name, seen_change, sluice.now_ms() - heard_at AS silent_ms FROM sluice.followers
       WHERE heard_at > sluice.now_ms() - ${forgottenAfterMs} ORDER BY name, id`,
    );
    const followers = rows.map((row) => ({
      name: text(row, "name"),
      seenChange: number(row, "seen_change"),
      silentMs: number(row, "silent_ms"),
    }));
    return { newestChange: await newestChange(this.#query), followers };
  }

  /** Removes the reports of this gateway, and those of gateways that have been killed. */
  async leave(): Promise<void> {
    // A report that is still on its way would write the row again.
    await this.#reported;
    if (this.#last === undefined) return;
    const old = `heard_at < sluice.now_ms() - ${forgottenAfterMs}`;
    await this.#query(`DELETE FROM sluice.followers WHERE id = $1 OR ${old}`, [this.#id]);
  }
}
