/** Sends the charges of a replica to the ledger: PostLane from memory, JournalLane from a journal (`local`). */
import type { JournalStart, PostBatch, Standing } from "./ledger.ts";
import type { Settlement } from "./leased-reservation.ts";

/** A settlement that was written to the journal of this replica, or whose write has failed. */
export interface Written {
  readonly settlement: Settlement;
  readonly isWritten: boolean;
  /** True if the leases from which it was charged have ended since. */
  readonly isOld: boolean;
}

/**
 * Sends charges to the ledger in numbered batches, one at a time. A batch whose reply is missing is sent again with the
 * same numbers, so the ledger accepts it once.
 */
export interface ChargeLane {
  /** True if all charges are posted. */
  readonly isEmpty: boolean;
  /** Number of charges that were never sent. */
  readonly queuedCharges: number;
  /** Time since which the oldest settlement has been waiting to be sent. Undefined if none is waiting. */
  readonly queuedSince: number | undefined;
  /** False while charges cannot be made, because the journal cannot be written. */
  readonly isWritable: boolean;
  /**
   * The start under which the replica registers. Undefined if it registers as a new replica. It is `later` while
   * charges of leases that have ended are still being written.
   */
  readonly start: JournalStart | "later" | undefined;
  /** Called when the ledger has registered the replica. The ledger has all charges up to `posted`. */
  registered(posted: number): void;
  add(settlement: Settlement, now: number): void;
  /** Returns the settlements whose write to the journal has succeeded or failed since the last call. */
  takeWritten(): readonly Written[];
  /** Removes the settlements that have been queued since `time` or earlier. They were never sent. */
  removeQueued(time: number): readonly Settlement[];
  /** Returns the next batch, or undefined while one is in flight or if there is none. */
  request(now: number): PostBatch | undefined;
  /** Sends the batch in flight again with the same numbers, because its reply is missing. */
  lost(): void;
  /**
   * Handles the reply to the batch in flight, and returns the settlements that are posted. Returns undefined if the
   * ledger has lost batches that are no longer kept.
   */
  receive(now: number, reply: Standing): readonly Settlement[] | undefined;
  /**
   * Posts the charges that the ledger has lost again: all those after the charge `posted`. Returns false if some of
   * them are no longer kept.
   */
  wentBack(posted: number): boolean;
  /**
   * Starts again after a fence. `posted`: the last charge that the ledger accepted. Returns the settlements that were
   * posted, and those that will never be posted.
   */
  restart(posted: number): {
    readonly posted: readonly Settlement[];
    readonly unposted: readonly Settlement[];
  };
}
