/** Leased credit of one exchange, for the step `meter`. Implements `Reservation`. */
import type { ChargeLine, Reservation, ReservedFor } from "sluice-gateway/services";
import { cutLines, isChargeable, notChargeable } from "../metering/charge-lines.ts";
import type { ChargeMetrics } from "../metering/metrics.ts";
import type { Account, LeasedReservation } from "./leased-reservation.ts";
import type { ChargeDetails } from "./ledger.ts";

/** Connects the reservations of a meter with the authority, and records their charges. */
export interface CreditLink {
  /** True if a charge may be made now. */
  readonly isAvailable: boolean;
  /** True if a key without a limit has a lease, too, so that its open reservations count when it gets a limit. */
  readonly leasesEveryKey: boolean;
  /**
   * Reserves credit. The result is open, waiting or refused. A waiting reservation reports its change with `onChange`.
   */
  reserve(account: Account, costMilliCu: number, isForced?: boolean): LeasedReservation;
  /** Called when bytes of the answer will be sent before an open reservation settles. */
  beginStream?(reservation: LeasedReservation, about: ReservedFor): void;
  /**
   * Charges a reservation, and releases it if there are no lines. `more`: see `Reservation.settle`. Resolves when the
   * charge is recorded. Rejects if it certainly is not.
   */
  settle(
    reservation: LeasedReservation,
    lines: readonly ChargeDetails[],
    more: readonly LeasedReservation[],
  ): Promise<void>;
  release(reservation: LeasedReservation): void;
  /** Records all charges and returns all credit, within a few seconds. */
  close(): Promise<void>;
}

/** The objects that all reservations of a meter share. */
export interface MeterReservationDeps {
  readonly link: CreditLink;
  readonly metrics: Pick<ChargeMetrics, "cut">;
  /** True if `settle` does not wait until the charge is recorded. */
  readonly isAsync: boolean;
}

const resolved = Promise.resolve();

export class MeterReservation implements Reservation {
  readonly kind = "reserved";
  /** The cost at `reserve`. */
  readonly costMilliCu: number;
  readonly #deps: MeterReservationDeps;
  readonly #credit: LeasedReservation;
  readonly #about: ReservedFor;
  #hasEnded = false;
  /** The result of `settle`. */
  #recorded: Promise<void> = resolved;

  /** `credit`: an open reservation. */
  constructor(deps: MeterReservationDeps, credit: LeasedReservation, about: ReservedFor) {
    this.#deps = deps;
    this.#credit = credit;
    this.costMilliCu = credit.costMilliCu;
    this.#about = about;
    if (about.streamed === true) deps.link.beginStream?.(credit, about);
  }

  /** A second call returns the promise of the first. */
  settle(lines: readonly ChargeLine[], more: readonly Reservation[] = []): Promise<void> {
    if (this.#hasEnded) return this.#recorded;
    this.#hasEnded = true;
    let maxMilliCu = this.costMilliCu;
    const others: LeasedReservation[] = [];
    for (const other of more) {
      if (!(other instanceof MeterReservation) || !other.#canPayFor(this)) continue;
      maxMilliCu += other.costMilliCu;
      other.#hasEnded = true;
      others.push(other.#credit);
    }
    this.#recorded = this.#settleUpTo(maxMilliCu, lines, others);
    return this.#recorded;
  }

  release(): void {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    this.#deps.link.release(this.#credit);
  }

  #canPayFor(other: MeterReservation): boolean {
    const { keyId } = this.#credit.account;
    return this !== other && !this.#hasEnded && keyId === other.#credit.account.keyId;
  }

  #settleUpTo(
    maxMilliCu: number,
    given: readonly ChargeLine[],
    others: readonly LeasedReservation[],
  ): Promise<void> {
    const { link, metrics, isAsync } = this.#deps;
    const wrong = given.find((line) => !isChargeable(line));
    const lines = wrong === undefined ? given : [];
    const cut = cutLines(lines, maxMilliCu, (surface, milliCu) =>
      metrics.cut(surface).add(milliCu),
    );
    const about = this.#about;
    const recorded = link.settle(
      this.#credit,
      cut.map((line) => ({ about, line })),
      others,
    );
    if (lines.length > 0 && !isAsync) return recorded;
    recorded.catch(() => {});
    return wrong === undefined ? resolved : Promise.reject(notChargeable(wrong));
  }
}

/** The reason why a charge is certainly not recorded. */
export function notRecorded(): Error {
  return new Error("the charge could not be recorded");
}
