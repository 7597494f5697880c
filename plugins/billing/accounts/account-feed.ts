/** Reads the changes of a store repeatedly, and tracks how old the state in memory is. */
import type { Clock, Log } from "sluice-gateway/plugin";
import type { AccountStore, StoreChanges } from "./account-store.ts";

export interface AccountFeedDeps {
  readonly store: Pick<AccountStore, "changed">;
  readonly clock: Clock;
  readonly log: Log;
  /**
   * Time for which keys in memory stay valid while the store cannot be read. If undefined, they stay valid for any
   * time, because a store on the same disk cannot be changed by others while it cannot be read.
   */
  readonly maxStaleMs: number | undefined;
  readonly apply: (changes: StoreChanges) => void;
}

interface Look {
  readonly newest: number;
  /** Monotonic time at which the look started. */
  readonly startedAt: number;
}

/** A look that has not been answered after this time waits for a commit, which a read does not. */
const lateMs = 300;

export class AccountFeed {
  readonly #deps: AccountFeedDeps;
  #isHealthy = true;
  #count = 0;
  /** Monotonic time at which the last successful read started. */
  #readAt: number;
  #running: Promise<void> | undefined;
  #next: Promise<void> | undefined;

  constructor(deps: AccountFeedDeps) {
    this.#deps = deps;
    this.#readAt = deps.clock.monotonic();
  }

  get isHealthy(): boolean {
    return this.#isHealthy;
  }

  /** Number of batches with a change. A value that was read before the last batch may be outdated. */
  get count(): number {
    return this.#count;
  }

  /** True if the store has not been read for so long that keys in memory must not be used. */
  isStale(): boolean {
    const { maxStaleMs, clock } = this.#deps;
    return maxStaleMs !== undefined && clock.monotonic() - this.#readAt > maxStaleMs;
  }

  /** Reads without waiting for the look in flight if it is late. A revocation must be seen within one second. */
  refreshIfLate(): void {
    if (this.#deps.clock.monotonic() - this.#readAt > lateMs) void this.refresh();
  }

  /** False if a load balancer should use other replicas, because this one refuses, or is about to refuse. */
  isReady(): boolean {
    return this.#deps.maxStaleMs === undefined ? this.#isHealthy : !this.isStale();
  }

  /**
   * Reads the changes that were committed before this call, or before the look. No statement is needed if the look has
   * shown that there are none. Never rejects.
   */
  refresh(look?: Look): Promise<void> {
    if (this.#running === undefined) return this.#start(look);
    // The read in flight may have started before the commit of the caller.
    this.#next ??= this.#running.then(() => {
      this.#next = undefined;
      return this.#start();
    });
    return this.#next;
  }

  /** Logs an error of the store once, although the store is read four times per second. */
  unreadable(error: unknown): void {
    if (this.#isHealthy) {
      const { log, maxStaleMs } = this.#deps;
      const valid = maxStaleMs === undefined ? "" : ` for ${maxStaleMs / 1000} s`;
      log.error({ err: error }, `cannot read accounts; keys in memory stay valid${valid}`);
    }
    this.#isHealthy = false;
  }

  #start(look?: Look): Promise<void> {
    this.#running = this.#read(look).finally(() => {
      this.#running = undefined;
    });
    return this.#running;
  }

  async #read(look?: Look): Promise<void> {
    const { store, clock, log, apply } = this.#deps;
    const startedAt = look?.startedAt ?? clock.monotonic();
    try {
      const changes = await store.changed(look?.newest);
      const isNews = changes.keys.length > 0 || changes.hasLostChanges;
      if (isNews) this.#count++;
      if (changes.hasLostChanges) {
        log.warn(
          {},
          "the database has lost changes of accounts: keys that were revoked last may be valid again",
        );
      }
      apply(changes);
      this.#readAt = startedAt;
      if (!this.#isHealthy) log.info({}, "accounts are readable again");
      this.#isHealthy = true;
    } catch (error) {
      this.unreadable(error);
    }
  }
}
