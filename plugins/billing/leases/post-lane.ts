/**
 * Sends the charges of a replica to the ledger in numbered batches, one at a time. A batch whose reply is missing is
 * sent again with the same numbers, so the ledger accepts it once.
 */
import type { LeasedCharge, PostBatch, ReplicaStatus } from "./ledger.ts";
import type { LeasedReservation } from "./leased-reservation.ts";

interface Batch extends PostBatch {
  readonly settled: readonly LeasedReservation[];
  postedAt: number;
}

/** After this number of charges, no further reservation is added to the batch. */
const maxCharges = 1_000;
const sweepMs = 1_000;

interface Queued {
  readonly settled: LeasedReservation;
  readonly since: number;
}

export class PostLane {
  /** Settled reservations whose charges were never sent, oldest first. */
  #queue: Queued[] = [];
  #queuedCharges = 0;
  #sent: Batch | undefined;
  #again: Batch[] = [];
  #kept: Batch[] = [];
  readonly #keptMs: number;
  #sweepAt = 0;
  #posted = 0;

  /** `keptMs`: minimum time for which posted batches are kept. */
  constructor(keptMs: number) {
    this.#keptMs = keptMs;
  }

  get isEmpty(): boolean {
    return this.#queue.length === 0 && this.#sent === undefined && this.#again.length === 0;
  }

  get queuedCharges(): number {
    return this.#queuedCharges;
  }

  /** Time since which the oldest charge has been waiting to be sent. Undefined if none is waiting. */
  get queuedSince(): number | undefined {
    return this.#queue[0]?.since;
  }

  add(settled: LeasedReservation, now: number): void {
    this.#queue.push({ settled, since: now });
    this.#queuedCharges += settled.charges.length;
  }

  /** Removes the reservations that have been queued since `time` or earlier. Their charges were never sent. */
  removeQueued(time: number): readonly LeasedReservation[] {
    const late = this.#queue.findIndex(({ since }) => since > time);
    const removed = this.#queue.splice(0, late === -1 ? this.#queue.length : late);
    for (const { settled } of removed) this.#queuedCharges -= settled.charges.length;
    return removed.map(({ settled }) => settled);
  }

  request(): Batch | undefined {
    if (this.#sent !== undefined) return undefined;
    this.#sent = this.#again.shift() ?? this.#nextBatch(this.#posted + 1);
    return this.#sent;
  }

  /** The charges of one reservation stay in one batch. */
  #nextBatch(first: number): Batch | undefined {
    const settled: LeasedReservation[] = [];
    const charges: LeasedCharge[] = [];
    let taken = 0;
    while (charges.length < maxCharges) {
      const next = this.#queue[taken]?.settled;
      if (next === undefined) break;
      taken++;
      settled.push(next);
      charges.push(...next.charges);
    }
    this.#queue = this.#queue.slice(taken);
    this.#queuedCharges -= charges.length;
    if (settled.length === 0) return undefined;
    return { first, last: first + charges.length - 1, settled, charges, postedAt: 0 };
  }

  /** Removes the batch in flight, which will never be accepted, and returns its reservations. */
  drop(): readonly LeasedReservation[] {
    const { settled = [] } = this.#sent ?? {};
    this.#sent = undefined;
    return settled;
  }

  /** Sends the batch in flight again with the same numbers, because its reply is missing. */
  lost(): void {
    if (this.#sent !== undefined) this.#again.unshift(this.#sent);
    this.#sent = undefined;
  }

  /** Returns the posted reservations. Undefined if the ledger has lost batches that are not kept any more. */
  receive(now: number, { posted }: ReplicaStatus): readonly LeasedReservation[] | undefined {
    const batch = this.#sent;
    if (batch === undefined) return [];
    this.#sent = undefined;
    if (posted < batch.last) {
      this.#again.unshift(batch);
      return this.wentBack(posted) ? [] : undefined;
    }
    batch.postedAt = now;
    this.#posted = Math.max(this.#posted, batch.last);
    this.#keep(batch, now);
    return batch.settled;
  }

  #keep(batch: Batch, now: number): void {
    if (this.#keptMs === 0) return;
    this.#kept.push(batch);
    // There are thousands of them.
    if (now < this.#sweepAt) return;
    this.#sweepAt = now + sweepMs;
    this.#kept = this.#kept.filter(({ postedAt }) => now - postedAt < this.#keptMs);
  }

  /** Posts the charges after `posted` again. Returns false if some of them are not kept any more. */
  wentBack(posted: number): boolean {
    const missing = this.#kept.filter(({ last }) => last > posted);
    this.#kept = this.#kept.filter(({ last }) => last <= posted);
    this.#again = [...missing, ...this.#again];
    const next = this.#sent ?? this.#again[0];
    return next === undefined ? posted >= this.#posted : next.first <= posted + 1;
  }

  /** Starts again after a fence, with number 1. `posted`: the last charge that the ledger accepted. */
  restart(posted: number): {
    readonly posted: readonly LeasedReservation[];
    readonly unposted: readonly LeasedReservation[];
  } {
    const batches = [
      ...this.#kept,
      ...this.#again,
      ...(this.#sent === undefined ? [] : [this.#sent]),
    ];
    const isPosted = ({ last }: Batch): boolean => last <= posted;
    const unposted = batches.filter((batch) => !isPosted(batch)).flatMap(({ settled }) => settled);
    const result = {
      posted: batches.filter(isPosted).flatMap(({ settled }) => settled),
      unposted: [...unposted, ...this.#queue.map(({ settled }) => settled)],
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
