/**
 * Sends the charges of a replica to the ledger in numbered batches, one at a time. A batch whose reply is missing is
 * sent again with the same numbers, so the ledger accepts it once.
 */
import type { LeasedCharge, PostBatch, Standing } from "./ledger.ts";
import type { Settlement } from "./leased-reservation.ts";

interface Batch extends PostBatch {
  readonly settlements: readonly Settlement[];
  postedAt: number;
}

/** After this number of charges, no further settlement is added to the batch. */
const maxCharges = 1_000;
/** Posted batches are kept for this time, because a failover of the ledger may lose them. */
const keptMs = 60_000;

interface Queued {
  readonly settlement: Settlement;
  readonly since: number;
}

export class PostLane {
  /** Settlements that were never sent, oldest first. */
  #queue: Queued[] = [];
  #queuedCharges = 0;
  /** The batch in flight. */
  #sent: Batch | undefined;
  /** Batches that must be posted again, oldest first. */
  #again: Batch[] = [];
  #kept: Batch[] = [];
  #posted = 0;

  /** True if all charges are posted. */
  get isEmpty(): boolean {
    return this.#queue.length === 0 && this.#sent === undefined && this.#again.length === 0;
  }

  /** Number of charges that were never sent. */
  get queuedCharges(): number {
    return this.#queuedCharges;
  }

  /** Time since which the oldest settlement has been waiting to be sent. Undefined if none is waiting. */
  get queuedSince(): number | undefined {
    return this.#queue[0]?.since;
  }

  add(settlement: Settlement, now: number): void {
    this.#queue.push({ settlement, since: now });
    this.#queuedCharges += settlement.charges.length;
  }

  /** Removes the settlements that have been queued since `time` or earlier. They were never sent. */
  removeQueued(time: number): readonly Settlement[] {
    const late = this.#queue.findIndex(({ since }) => since > time);
    const removed = this.#queue.splice(0, late === -1 ? this.#queue.length : late);
    for (const { settlement } of removed) this.#queuedCharges -= settlement.charges.length;
    return removed.map(({ settlement }) => settlement);
  }

  /** Returns the next batch, or undefined while one is in flight or if there is none. */
  request(): Batch | undefined {
    if (this.#sent !== undefined) return undefined;
    this.#sent = this.#again.shift() ?? this.nextBatch(this.#posted + 1);
    return this.#sent;
  }

  /** Numbers the charges that are queued. The charges of one settlement stay in one batch. */
  protected nextBatch(first: number): Batch | undefined {
    const settlements: Settlement[] = [];
    const charges: LeasedCharge[] = [];
    let taken = 0;
    while (charges.length < maxCharges) {
      const settlement = this.#queue[taken]?.settlement;
      if (settlement === undefined) break;
      taken++;
      settlements.push(settlement);
      charges.push(...settlement.charges);
    }
    this.#queue = this.#queue.slice(taken);
    this.#queuedCharges -= charges.length;
    if (settlements.length === 0) return undefined;
    return { first, last: first + charges.length - 1, settlements, charges, postedAt: 0 };
  }

  /** Sends the batch in flight again with the same numbers, because its reply is missing. */
  lost(): void {
    if (this.#sent !== undefined) this.#again.unshift(this.#sent);
    this.#sent = undefined;
  }

  /**
   * Handles the reply to the batch in flight, and returns the settlements that are posted. Returns undefined if the
   * ledger has lost batches that are no longer kept.
   */
  receive(now: number, { posted }: Standing): readonly Settlement[] | undefined {
    const batch = this.#sent;
    if (batch === undefined) return [];
    this.#sent = undefined;
    if (posted < batch.last) {
      this.#again.unshift(batch);
      return this.wentBack(posted) ? [] : undefined;
    }
    batch.postedAt = now;
    this.#posted = Math.max(this.#posted, batch.last);
    this.#kept = this.#kept.filter(({ postedAt }) => now - postedAt < keptMs);
    this.#kept.push(batch);
    return batch.settlements;
  }

  /**
   * Posts the charges that the ledger has lost again: all those after the charge `posted`. Returns false if some of
   * them are no longer kept.
   */
  wentBack(posted: number): boolean {
    const missing = this.#kept.filter(({ last }) => last > posted);
    this.#kept = this.#kept.filter(({ last }) => last <= posted);
    this.#again = [...missing, ...this.#again];
    const next = this.#sent ?? this.#again[0];
    return next === undefined ? posted >= this.#posted : next.first <= posted + 1;
  }

  /**
   * Starts again after a fence, with number 1. `posted`: the last charge that the ledger accepted. Returns the
   * settlements that were posted, and those that will never be posted.
   */
  restart(posted: number): {
    readonly posted: readonly Settlement[];
    readonly unposted: readonly Settlement[];
  } {
    const batches = [
      ...this.#kept,
      ...this.#again,
      ...(this.#sent === undefined ? [] : [this.#sent]),
    ];
    const isPosted = ({ last }: Batch): boolean => last <= posted;
    const unposted = batches
      .filter((batch) => !isPosted(batch))
      .flatMap(({ settlements }) => settlements);
    const result = {
      posted: batches.filter(isPosted).flatMap(({ settlements }) => settlements),
      unposted: [...unposted, ...this.#queue.map(({ settlement }) => settlement)],
    };
    this.#queue = [];
    this.#queuedCharges = 0;
    this.#sent = undefined;
    this.#again = [];
    this.#kept = [];
    this.#posted = 0;
    return result;
  }
}
