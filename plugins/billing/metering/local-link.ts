/**
 * Connects the reservations of a gateway that is alone with its authority, which is in the same process. Everything
 * here runs on the main thread. Asking the authority is a function call, so checking a limit and reserving credit are
 * one step, and no reservation ever waits. Charges count as granted credit until they are on disk: see
 * charge-batches.ts.
 */
import type { ReservedFor } from "sluice-gateway/services";
import { LeasedCredit } from "../leases/leased-credit.ts";
import type { Account, Lease, LeasedReservation } from "../leases/leased-reservation.ts";
import type { ChargeDetails, PostRequest, ReplicaStatus } from "../leases/ledger.ts";
import { notRecorded, type CreditLink } from "../leases/leased-meter.ts";
import { ChargeBatches, type ChargeBatchesDeps, type Recorded } from "./charge-batches.ts";
import { placesPerCommit } from "./charge-number.ts";
import { closeReason } from "./records.ts";

/** While more charges wait for the disk, it must be hanging, and no credit is reserved. */
const maxWaitingRows = 15_000;
const everyMs = 1_000;
const resolved = Promise.resolve();

export class LocalLink implements CreditLink {
  readonly leasesEveryKey = true;
  readonly credit = new LeasedCredit((settled) => this.batches.add(settled));
  readonly #deps: Omit<ChargeBatchesDeps, "credit" | "replica">;
  readonly #replica: number;
  readonly batches: ChargeBatches;
  #leaseNo = 0;
  /** Ends when the journal can be used again after a correction of its times. */
  #correcting: Promise<void> | undefined;
  #closing: Promise<void> | undefined;
  readonly #timer: Disposable;

  constructor(deps: Omit<ChargeBatchesDeps, "credit" | "replica">) {
    const { clock, ledger } = deps;
    this.#deps = deps;
    this.#replica = ledger.register("").replica;
    this.batches = new ChargeBatches({ ...deps, credit: this.credit, replica: this.#replica });
    this.#timer = clock.every(everyMs, () => this.#everySecond());
  }

  get isAvailable(): boolean {
    if (this.#closing !== undefined || this.#correcting !== undefined) return false;
    return this.batches.isAvailable && this.batches.waitingRows < maxWaitingRows;
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

  #ask(now: number, scopes?: readonly Lease[]): void {
    const wants = this.credit.request(now, scopes);
    if (wants.length === 0) return;
    const request = { replica: this.#replica, leaseNo: ++this.#leaseNo, wants };
    this.credit.receive(now, this.#deps.ledger.lease(request).granted);
  }

  beginStream(reservation: LeasedReservation, about: ReservedFor): void {
    this.batches.beginStream(reservation, about);
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
    if (this.batches.waitingRows + lines.length > placesPerCommit / 2) {
      for (const each of [reservation, ...more]) this.release(each);
      return Promise.reject(notRecorded());
    }
    this.#moveOn();
    this.credit.settle(reservation, lines, more);
    for (const other of more) this.batches.endStream(other, closeReason.settled);
    if (reservation.state !== "settling") {
      this.batches.endStream(reservation, closeReason.settled);
      return resolved;
    }
    // The end of a stream may be committed a few milliseconds later.
    return this.batches.commit(reservation.stream > 0);
  }

  release(reservation: LeasedReservation): void {
    this.credit.release(reservation);
    this.batches.endStream(reservation, closeReason.released);
  }

  #moveOn(): void {
    const time = this.#deps.time.now();
    this.batches.startMonth(time);
    this.credit.moveTo(time);
  }

  #everySecond(): void {
    const { clock, ledger, metrics } = this.#deps;
    const now = clock.monotonic();
    const { waitingRows, waitingSince = now } = this.batches;
    metrics.openReservations.set(this.credit.reservations);
    metrics.waitingRows.set(waitingRows);
    metrics.waitingSeconds.set((now - waitingSince) / 1000);
    this.#moveOn();
    this.credit.sweep(now);
    this.#ask(now);
    ledger.sweep();
  }

  async post(request: PostRequest): Promise<ReplicaStatus> {
    await this.#correcting;
    this.batches.startMonth(this.#deps.time.now());
    return this.batches.post(request);
  }

  /**
   * Closes the journal, and continues with what `reopen` returns. Reservations are refused and charges wait meanwhile.
   * Never rejects.
   */
  correct(reopen: () => Promise<Recorded>, onFailure: (error: unknown) => void): void {
    const run = async (): Promise<void> => {
      try {
        await this.batches.end();
        this.batches.use(await reopen());
        this.credit.moveBack();
      } catch (error) {
        onFailure(error);
      }
      this.#correcting = undefined;
    };
    this.#correcting ??= run();
  }

  close(): Promise<void> {
    return (this.#closing ??= this.#close());
  }

  async #close(): Promise<void> {
    this.#timer[Symbol.dispose]();
    await this.#correcting;
    await this.batches.end();
  }
}
