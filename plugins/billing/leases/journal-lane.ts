/**
 * Sends the charges of a replica from its journal (`local`). A charge is durable as soon as it is in the journal, and
 * the answer waits only for that. The commits of the journal are the batches of the ledger: their numbers have no gaps,
 * so the ledger accepts each one once, including those that an earlier start has written.
 */
import { randomInt } from "node:crypto";
import type { ChargeLane, Written } from "./charge-lane.ts";
import type { JournalStart, LeasedCharge, PostBatch, Standing } from "./ledger.ts";
import type { Settlement } from "./leased-reservation.ts";

/** Commits of a journal. */
export interface JournalBatch extends PostBatch {
  /** True if there are more commits. */
  readonly more: boolean;
}

/** The journal, as the lane uses it. */
export interface ChargeJournal {
  readonly id: string;
  readonly isWritable: boolean;
  /** Number of the last commit on disk. */
  readonly lastCommit: number;
  /**
   * Appends the charges of one settlement. `done` is called when they are on disk or can no longer be written, in the
   * order of the calls.
   */
  append(charges: readonly LeasedCharge[], done: (isWritten: boolean) => void): void;
  /** Reads the commits after `after`. `done` is called with undefined if they cannot be read now. */
  read(after: number, done: (batch: JournalBatch | undefined) => void): void;
}

export interface JournalLaneOptions {
  readonly journal: ChargeJournal;
  /** Number of the last start on this journal that the ledger knows. 0 if it does not know the journal. */
  readonly lastStart: number;
  /** Called when there is something new to send or to report. */
  readonly onChange: () => void;
  /** Returns the number under which a start registers: see JournalStart. */
  readonly pickNumber?: () => number;
}

/** A settlement in the journal that is not posted. */
interface Unposted {
  readonly settlement: Settlement;
  readonly commit: number;
  readonly since: number;
}

/** Time between two reads of the journal. Charges must reach PostgreSQL within 250 ms. */
const readMs = 100;

export class JournalLane implements ChargeLane {
  readonly #options: JournalLaneOptions;
  readonly #journal: ChargeJournal;
  readonly #pickNumber: () => number;
  #replica: number;
  #start: number;
  /** Number of the last commit at the first registration of this start. */
  #last: number | undefined;
  /**
   * Incremented when the replica was fenced. Settlements of an earlier era were charged from leases that have ended.
   */
  #era = 0;
  /** Numbers of settlements that are being written: of this era and of earlier ones. */
  #writing = 0;
  #writingOld = 0;
  #written: Written[] = [];
  #unposted: Unposted[] = [];
  /** Times at which the settlements that are being written were made, oldest first. They are written in this order. */
  readonly #appendedAt: number[] = [];
  /** Time since which the oldest charge from before a fence has waited. Undefined if all of them are posted. */
  #earlierSince: number | undefined;
  /**
   * Number of charges in `#unposted`. It is counted separately, because it is read for each reservation and there are
   * many charges after an outage.
   */
  #queuedCharges = 0;
  /** Number of the last commit that the ledger has. Undefined before this start has registered. */
  #posted: number | undefined;
  #isReading = false;
  #readAt = 0;
  #loaded: JournalBatch | undefined;
  /** The batch in flight. */
  #sent: JournalBatch | undefined;

  constructor(options: JournalLaneOptions) {
    this.#options = options;
    this.#journal = options.journal;
    this.#pickNumber = options.pickNumber ?? (() => randomInt(2 ** 47, 2 ** 48 - 1));
    this.#replica = this.#pickNumber();
    this.#start = options.lastStart + 1;
  }

  get isEmpty(): boolean {
    const { lastCommit } = this.#journal;
    return this.#writing + this.#writingOld === 0 && (this.#posted ?? -1) >= lastCommit;
  }

  get queuedCharges(): number {
    return this.#queuedCharges;
  }

  get queuedSince(): number | undefined {
    return this.#earlierSince ?? this.#unposted[0]?.since ?? this.#appendedAt[0];
  }

  get isWritable(): boolean {
    return this.#journal.isWritable;
  }

  get start(): JournalStart | "later" {
    if (this.#last === undefined && this.#writingOld > 0) return "later";
    this.#last ??= this.#journal.lastCommit;
    const { id: journal } = this.#journal;
    return { journal, replica: this.#replica, start: this.#start, last: this.#last };
  }

  registered(posted: number): void {
    this.#continueAfter(posted);
  }

  add(settlement: Settlement, now: number): void {
    const era = this.#era;
    this.#writing++;
    this.#appendedAt.push(now);
    this.#journal.append(settlement.charges, (isWritten) => {
      this.#appendedAt.shift();
      const isOld = era !== this.#era;
      if (isOld) this.#writingOld--;
      else this.#writing--;
      this.#written.push({ settlement, isWritten, isOld });
      const { lastCommit } = this.#journal;
      if (isWritten && !isOld) {
        this.#unposted.push({ settlement, commit: lastCommit, since: now });
        this.#queuedCharges += settlement.charges.length;
      }
      this.#options.onChange();
    });
  }

  takeWritten(): readonly Written[] {
    const written = this.#written;
    if (written.length > 0) this.#written = [];
    return written;
  }

  /** Charges in the journal are never abandoned. */
  removeQueued(): readonly Settlement[] {
    return [];
  }

  request(now: number): PostBatch | undefined {
    if (this.#sent !== undefined) return undefined;
    if (this.#loaded === undefined) this.#read(now);
    this.#sent = this.#loaded;
    this.#loaded = undefined;
    return this.#sent;
  }

  lost(): void {
    this.#loaded = this.#sent ?? this.#loaded;
    this.#sent = undefined;
  }

  receive(_now: number, { posted }: Standing): readonly Settlement[] {
    const { last = posted, more = false } = this.#sent ?? {};
    this.#sent = undefined;
    if (posted === last && more) this.#readAt = 0;
    this.#continueAfter(posted);
    const after = this.#unposted.findIndex(({ commit }) => commit > posted);
    const count = after === -1 ? this.#unposted.length : after;
    const confirmed = this.#unposted.splice(0, count).map(({ settlement }) => settlement);
    for (const { charges } of confirmed) this.#queuedCharges -= charges.length;
    return confirmed;
  }

  /** The journal keeps all commits. */
  wentBack(posted: number): boolean {
    // If a batch is in flight, the ledger refuses it, and `receive` continues at the right place.
    if (this.#sent === undefined) this.#continueAfter(posted);
    return true;
  }

  restart(): { readonly posted: readonly Settlement[]; readonly unposted: readonly Settlement[] } {
    this.#era++;
    this.#earlierSince = this.queuedSince;
    this.#writingOld += this.#writing;
    this.#writing = 0;
    this.#unposted = [];
    this.#queuedCharges = 0;
    this.#replica = this.#pickNumber();
    this.#start++;
    this.#last = undefined;
    this.#posted = undefined;
    this.#loaded = undefined;
    this.#sent = undefined;
    // All charges are in the journal or will be, so none of them has to be reserved again.
    return { posted: [], unposted: [] };
  }

  #continueAfter(posted: number): void {
    if (posted === this.#posted) return;
    this.#posted = posted;
    if (this.#last !== undefined && posted >= this.#last) this.#earlierSince = undefined;
    this.#loaded = undefined;
  }

  #read(now: number): void {
    const after = this.#posted;
    if (after === undefined || this.#isReading) return;
    if (now < this.#readAt || this.#journal.lastCommit <= after) return;
    this.#isReading = true;
    this.#readAt = now + readMs;
    this.#journal.read(after, (batch) => {
      this.#isReading = false;
      if (batch === undefined || after !== this.#posted || this.#sent !== undefined) return;
      this.#loaded = batch;
      this.#options.onChange();
    });
  }
}
