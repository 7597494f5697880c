/**
 * Connects the reservations of a gateway that is alone with its authority, which is in the same process, and writes their
 * charges to the journal. Everything here runs on the main thread. Asking the authority is a function call, so checking a
 * limit and reserving credit are one step, and no reservation ever waits.
 *
 * The charges of one turn of the event loop share a commit, and so do all that are settled while a commit is in flight.
 * The authority accepts charges when they are on disk. Until then they count as granted credit.
 */
import { availableParallelism } from "node:os";
import type { Clock, Log } from "sluice-gateway/plugin";
import { guarded } from "sluice-gateway/toolkit";
import type { ReservedFor } from "sluice-gateway/services";
import { LeasedCredit } from "../leases/leased-credit.ts";
import type { Account, Lease, LeasedReservation } from "../leases/leased-reservation.ts";
import type { ChargeDetails, LeasedCharge, WorkspaceLimits } from "../leases/ledger.ts";
import type { MemoryLedger } from "../leases/memory-ledger.ts";
import { notRecorded, type CreditLink } from "../leases/meter-reservation.ts";
import { placesPerCommit } from "./charge-number.ts";
import type { Journal } from "./journal.ts";
import type { MeterTime } from "./meter-time.ts";
import type { MeterMetrics } from "./metrics.ts";
import { MonthDraws } from "./month-draws.ts";
import { OpenStreams, type StreamEvent } from "./open-streams.ts";
import { periodOf } from "./periods.ts";
import type { RecordEncoder } from "./record-encoder.ts";
import { closeReason } from "./records.ts";

/** The journal and the months on disk when the link starts. */
export interface Recorded {
  readonly journal: Journal;
  readonly encoder: RecordEncoder;
  /** The months of workspaces by their ids. */
  readonly draws: Map<string, MonthDraws>;
}

interface LocalLinkDeps {
  readonly recorded: Recorded;
  readonly ledger: MemoryLedger;
  readonly time: MeterTime;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: MeterMetrics;
  /** True if charges that could not be written are kept for another attempt, because their callers do not wait. */
  readonly isAsync: boolean;
}

/** Charges that are committed together. */
interface Batch {
  /** Number of charges. */
  rows: number;
  /** Monotonic time of the first one in milliseconds. */
  readonly since: number;
  readonly promise: Promise<void>;
  readonly resolve: () => void;
  readonly reject: (error: Error) => void;
}

/** A batch that the journal writes. */
interface Writing extends Batch {
  readonly events: readonly StreamEvent[];
  readonly settled: readonly LeasedReservation[];
  readonly charges: readonly LeasedCharge[];
  readonly bytes: number;
  /** The months that the charges changed. */
  readonly draws: ReadonlySet<MonthDraws>;
}

/**
 * On one core, a commit takes its time from the event loop, however many charges it has. Charges then wait for others
 * while reservations are open.
 */
const isOneCore = availableParallelism() === 1;
/** Records that may wait for others wait for this time (milliseconds). */
const deferMs = isOneCore ? 1 : 4;
/** While more charges wait for the disk, it must be hanging, and no credit is reserved. */
const maxWaitingRows = 15_000;
const everyMs = 1_000;
const resolved = Promise.resolve();

export class LocalLink implements CreditLink {
  readonly leasesEveryKey = true;
  /** The settled reservations whose charges are not in a commit yet. */
  #settled: LeasedReservation[] = [];
  readonly credit = new LeasedCredit((settled) => this.#settled.push(settled));
  readonly #deps: LocalLinkDeps;
  readonly #replica: number;
  #leaseNo = 0;
  /** Number of the last charge that the authority has accepted. */
  #posted = 0;
  #recorded: Recorded;
  #monthEnd = 0;
  /** The charges that were settled after those in `#writing`. */
  #next: Batch | undefined;
  #writing: Writing | undefined;
  readonly #streams = new OpenStreams();
  /** True if the records that wait must be written as soon as possible. */
  #isDue = false;
  #deferred: NodeJS.Timeout | undefined;
  /** Ends when the journal can be used again after a correction of its times. */
  #correcting: Promise<void> | undefined;
  /** True from the end of the old journal until the corrected one is open. */
  #isReopening = false;
  #isClosed = false;
  #closing: Promise<void> | undefined;
  #onIdle: (() => void) | undefined;
  readonly #timer: Disposable;
  readonly #flush: () => void;

  constructor(deps: LocalLinkDeps) {
    const { clock, ledger, log, recorded } = deps;
    this.#deps = deps;
    this.#replica = ledger.register("").replica;
    this.#recorded = recorded;
    this.#use(recorded);
    this.#timer = clock.every(everyMs, () => this.#everySecond());
    this.#flush = guarded(
      () => this.#write(),
      (error) => {
        log.error({ err: error }, "charges could not be encoded");
        this.#lose(error instanceof Error ? error : new Error(String(error)));
      },
    );
  }

  get isAvailable(): boolean {
    if (this.#isClosed || this.#correcting !== undefined || !this.#recorded.journal.writable)
      return false;
    return this.#waitingRows < maxWaitingRows;
  }

  reserve(account: Account, costMilliCu: number, isForced = false): LeasedReservation {
    this.#moveOn();
    const now = this.#deps.clock.monotonic();
    let reservation = this.credit.reserve(now, account, costMilliCu);
    if (reservation.state === "waiting") this.#ask(now, reservation.scopes);
    if (isForced && reservation.state !== "open") {
      reservation = this.credit.reserve(now, account, costMilliCu, true);
    }
    return reservation;
  }

  /** Asks the authority for what is needed in these scopes, or in all scopes that have changed. */
  #ask(now: number, scopes?: readonly Lease[]): void {
    const wants = this.credit.request(now, scopes);
    if (wants.length === 0) return;
    const request = { replica: this.#replica, leaseNo: ++this.#leaseNo, wants };
    this.credit.receive(now, this.#deps.ledger.lease(request).granted);
  }

  beginStream(reservation: LeasedReservation, about: ReservedFor): void {
    this.#streams.begin(reservation, this.#deps.time.now(), about);
    this.#defer();
  }

  settle(
    reservation: LeasedReservation,
    lines: readonly ChargeDetails[],
    more: readonly LeasedReservation[],
  ): Promise<void> {
    if (this.#correcting !== undefined) {
      const settled = this.#correcting.then(() => this.settle(reservation, lines, more));
      settled.catch(() => {});
      return settled;
    }
    if (this.#waitingRows + lines.length > placesPerCommit / 2) {
      for (const each of [reservation, ...more]) this.release(each);
      return Promise.reject(notRecorded());
    }
    this.#moveOn();
    const before = this.#settled.length;
    this.credit.settle(reservation, lines, more);
    for (const other of more) this.#endStream(other, closeReason.settled);
    if (this.#settled.length === before) {
      this.#endStream(reservation, closeReason.settled);
      return resolved;
    }
    // The end of a stream may be committed a few milliseconds later, and a charge that no caller waits for, too.
    const mayWait = (isOneCore || reservation.stream > 0) && this.credit.reservations > 0;
    return this.#addToBatch(lines.length, this.#deps.isAsync || mayWait);
  }

  release(reservation: LeasedReservation): void {
    this.credit.release(reservation);
    this.#endStream(reservation, closeReason.released);
  }

  /** Records the end of a stream without a charge. */
  #endStream(reservation: LeasedReservation, why: number): void {
    if (this.#streams.end(reservation, this.#deps.time.now(), why)) this.#defer();
  }

  #addToBatch(rows: number, mayWait: boolean): Promise<void> {
    const batch = (this.#next ??= newBatch(this.#deps.clock.monotonic()));
    batch.rows += rows;
    if (this.#recorded.journal.failure !== undefined && !this.#deps.isAsync) {
      this.#lose(this.#recorded.journal.failure);
    } else if (mayWait) this.#defer();
    else this.#schedule();
    return batch.promise;
  }

  /** Writes at the end of this turn of the event loop, or after the commit in flight. */
  #schedule(): void {
    if (this.#isDue) return;
    this.#isDue = true;
    if (this.#writing === undefined) setImmediate(this.#flush);
  }

  /** Writes within `deferMs`, or with what is written earlier. */
  #defer(): void {
    this.#deferred ??= setTimeout(this.#flush, deferMs);
  }

  #write(): void {
    this.#isDue = true;
    if (this.#writing !== undefined || this.#isReopening) return;
    const { failure } = this.#recorded.journal;
    if (failure !== undefined && this.#onIdle === undefined) {
      const isKept = this.#deps.isAsync && this.#recorded.journal.mayRecover;
      if (!isKept && this.#next !== undefined) this.#lose(failure);
      return;
    }
    this.#isDue = false;
    clearTimeout(this.#deferred);
    this.#deferred = undefined;
    const encoder = this.#recorded.encoder;
    encoder.clear();
    const events = this.#streams.encode(encoder);
    const batch = this.#next ?? newBatch(this.#deps.clock.monotonic());
    const draws = new Set<MonthDraws>();
    const charges: LeasedCharge[] = [];
    const settled = this.#settled;
    for (const reservation of settled) {
      draws.add(this.#encode(reservation));
      for (const charge of reservation.charges) charges.push(charge);
    }
    if (encoder.rows === 0) return this.#onIdle?.();
    this.#next = undefined;
    this.#settled = [];
    batch.rows = encoder.rows;
    this.#writing = Object.assign(batch, { settled, charges, events, draws, bytes: encoder.bytes });
    void this.#commit(this.#writing);
  }

  /** Returns the months that the charges change. */
  #encode(reservation: LeasedReservation): MonthDraws {
    const { workspaceId } = reservation.account;
    let draws = this.#recorded.draws.get(workspaceId);
    if (draws === undefined) this.#recorded.draws.set(workspaceId, (draws = new MonthDraws()));
    const limits = this.#deps.ledger.scopes.get(workspaceId)?.limits ?? draws.limits;
    for (const charge of reservation.charges) {
      draws.moveTo(this.#deps.time.periodStart(charge.time));
      this.#recorded.encoder.charge(
        charge,
        draws.add(charge.costMilliCu, limits),
        reservation.stream,
      );
    }
    return draws;
  }

  /** Never rejects. */
  async #commit(writing: Writing): Promise<void> {
    try {
      await this.#recorded.journal.write(writing.bytes, writing.rows);
      this.#accept(writing);
    } catch (error) {
      const failure = error instanceof Error ? error : notRecorded();
      const { isAsync } = this.#deps;
      if (isAsync && this.#recorded.journal.mayRecover && this.#onIdle === undefined) return;
      this.#lose(failure);
    }
  }

  #accept({ settled, charges, draws, resolve }: Writing): void {
    const { ledger, metrics } = this.#deps;
    const last = this.#posted + charges.length;
    ledger.post({ replica: this.#replica, first: this.#posted + 1, last, charges });
    this.#posted = last;
    for (const { costMilliCu, details } of charges) {
      metrics.charged(details.line.surface).add(costMilliCu);
    }
    for (const reservation of settled) this.credit.posted(reservation);
    for (const each of draws) each.save();
    this.#writing = undefined;
    this.#recorded.encoder.saved();
    this.#moveOn();
    resolve();
    if (this.#isDue || this.#onIdle !== undefined) this.#write();
  }

  /**
   * Reverses all charges that are not on disk. Their promises reject, so nothing is charged. The begins and ends of
   * streams are written with the next commit.
   */
  #lose(error: Error): void {
    const { isAsync, log, metrics } = this.#deps;
    const rows = (this.#writing?.rows ?? 0) + (this.#next?.rows ?? 0);
    if (rows > 0 && (isAsync || !this.#recorded.journal.mayRecover)) {
      log.error({ rows }, "charges could not be written to the journal");
    }
    for (const draws of this.#recorded.draws.values()) draws.takeBack();
    this.#streams.takeBack(this.#writing?.events ?? []);
    for (const reservation of [...(this.#writing?.settled ?? []), ...this.#settled]) {
      this.credit.takeBack(reservation);
      this.#endStream(reservation, closeReason.released);
      for (const { costMilliCu } of reservation.charges) metrics.lost.add(costMilliCu);
    }
    this.#settled = [];
    this.#writing?.reject(error);
    this.#next?.reject(error);
    this.#writing = undefined;
    this.#next = undefined;
    this.#recorded.encoder.discard();
    this.#onIdle?.();
  }

  #moveOn(): void {
    const time = this.#deps.time.now();
    if (time >= this.#monthEnd) this.#startMonth(time);
    this.credit.moveTo(time);
  }

  /** Ends the months of all workspaces, as soon as their charges are on disk. Their divisions never change again. */
  #startMonth(time: number): void {
    const { start, end } = periodOf(time);
    const oldest = this.#settled[0]?.charges[0]?.time ?? start;
    if (this.#writing !== undefined || oldest < start) return;
    this.#monthEnd = end;
    for (const [workspaceId, draws] of this.#recorded.draws) {
      draws.moveTo(start);
      draws.save();
      const scope = this.#deps.ledger.scope(workspaceId);
      Object.assign(scope, { fixed: [...draws.ended] });
    }
  }

  #everySecond(): void {
    const { clock, ledger, metrics } = this.#deps;
    const since = (this.#writing ?? this.#next)?.since;
    metrics.openReservations.set(this.credit.reservations);
    metrics.waitingRows.set(this.#waitingRows);
    metrics.waitingSeconds.set(since === undefined ? 0 : (clock.monotonic() - since) / 1000);
    this.#moveOn();
    const now = clock.monotonic();
    this.credit.sweep(now);
    this.#ask(now);
    ledger.sweep();
  }

  /** Returns limits that divide the sum of the month as it is on disk. */
  limitsOf(workspaceId: string): WorkspaceLimits {
    return (this.#recorded.draws.get(workspaceId) ?? new MonthDraws()).limits;
  }

  get #waitingRows(): number {
    return (this.#writing?.rows ?? 0) + (this.#next?.rows ?? 0) + this.#streams.waiting;
  }

  /** Continues with a journal that has just been opened. */
  #use(recorded: Recorded): void {
    this.#recorded = recorded;
    this.#monthEnd = 0;
    this.#startMonth(this.#deps.time.now());
    recorded.journal.onChange = () => {
      if (this.#onIdle !== undefined) return;
      if (this.#writing === undefined) this.#flush();
      else void this.#commit(this.#writing);
    };
  }

  /** Resolves when everything so far is on disk. Rejects if some of it could not be written. */
  flush(): Promise<void> {
    if (this.#writing === undefined) this.#flush();
    return (this.#next ?? this.#writing)?.promise ?? resolved;
  }

  /**
   * Closes the journal, and continues with what `reopen` returns. Reservations are refused and charges wait meanwhile.
   * Never rejects.
   */
  correct(reopen: () => Promise<Recorded>, onFailure: (error: unknown) => void): void {
    const run = async (): Promise<void> => {
      try {
        await this.#end();
        this.#use(await reopen());
        this.credit.moveBack();
      } catch (error) {
        onFailure(error);
      }
      this.#correcting = undefined;
      this.#isReopening = false;
      this.#flush();
    };
    this.#correcting ??= run();
  }

  /** Writes all records, with a last attempt if the journal has failed, and closes the journal. */
  async #end(): Promise<void> {
    await this.#recorded.journal.probed;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#onIdle = resolve;
    if (this.#writing === undefined) this.#flush();
    else if (this.#recorded.journal.failure !== undefined) void this.#commit(this.#writing);
    await promise;
    this.#onIdle = undefined;
    clearTimeout(this.#deferred);
    this.#deferred = undefined;
    this.#isReopening = this.#correcting !== undefined;
    await this.#recorded.journal.close();
  }

  close(): Promise<void> {
    return (this.#closing ??= this.#close());
  }

  async #close(): Promise<void> {
    this.#isClosed = true;
    this.#timer[Symbol.dispose]();
    await this.#correcting;
    await this.#end();
  }
}

function newBatch(since: number): Batch {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  // Callers that wait get the rejection. Without a caller it must not be an unhandled rejection.
  promise.catch(() => {});
  return { rows: 0, since, promise, resolve, reject };
}
