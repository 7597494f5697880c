/** The meter of a gateway reserves and charges inside the credit that the authority has leased to it. */
import type {
  ChargeLine,
  CuRefusal,
  KeyPrincipal,
  Meter,
  MeterUnavailable,
  Reservation,
  ReservedFor,
} from "sluice-gateway/services";
import {
  cutLines,
  isAmount,
  isChargeable,
  notAnAmount,
  notChargeable,
} from "../metering/charge-lines.ts";
import type { ChargeMetrics } from "../metering/metrics.ts";
import type { Account, LeasedReservation } from "./leased-reservation.ts";
import { unlimitedMilliCu, type ChargeDetails } from "./ledger.ts";

/** Connects the reservations of a meter with the authority, and records their charges. */
export interface CreditLink {
  /** True if a charge may be made now. */
  readonly isAvailable: boolean;
  /** True if a key without a limit has a lease, too, so that its open reservations count when it gets a limit. */
  readonly leasesEveryKey: boolean;
  /** The result is open, waiting or refused. A waiting reservation reports its change with `onChange`. */
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

export interface LeasedMeterDeps {
  readonly link: CreditLink;
  readonly metrics: Pick<ChargeMetrics, "cut">;
  /** True if `settle` does not wait until the charge is recorded. */
  readonly isAsync: boolean;
  readonly unavailable: MeterUnavailable;
}

const noAnswer: MeterUnavailable = {
  kind: "unavailable",
  reason: "the holder of the credit did not answer in time",
};

export class LeasedMeter implements Pick<Meter, "reserve" | "reserveWithoutLimit"> {
  readonly #deps: LeasedMeterDeps;
  readonly #accounts = new WeakMap<KeyPrincipal, Account>();

  constructor(deps: LeasedMeterDeps) {
    this.#deps = deps;
  }

  /** The result is a promise if more credit must be requested from another host. */
  reserve(
    principal: KeyPrincipal,
    costMilliCu: number,
    about: ReservedFor,
  ):
    | Reservation
    | CuRefusal
    | MeterUnavailable
    | Promise<Reservation | CuRefusal | MeterUnavailable> {
    if (!isAmount(costMilliCu)) throw notAnAmount(costMilliCu);
    const { link, unavailable } = this.#deps;
    if (!link.isAvailable) return unavailable;
    const credit = link.reserve(this.#accountOf(principal), costMilliCu);
    if (credit.state !== "waiting") return this.#resultOf(credit, about);
    const { promise, resolve } = Promise.withResolvers<
      Reservation | CuRefusal | MeterUnavailable
    >();
    credit.onChange = () => {
      credit.onChange = undefined;
      resolve(this.#resultOf(credit, about));
    };
    return promise;
  }

  reserveWithoutLimit(
    principal: KeyPrincipal,
    costMilliCu: number,
    about: ReservedFor,
  ): Reservation | MeterUnavailable {
    if (!isAmount(costMilliCu)) throw notAnAmount(costMilliCu);
    const { link, unavailable } = this.#deps;
    if (!link.isAvailable) return unavailable;
    return new MeterReservation(
      this.#deps,
      link.reserve(this.#accountOf(principal), costMilliCu, true),
      about,
    );
  }

  get writable(): boolean {
    return this.#deps.link.isAvailable;
  }

  close(): Promise<void> {
    return this.#deps.link.close();
  }

  #resultOf(
    credit: LeasedReservation,
    about: ReservedFor,
  ): Reservation | CuRefusal | MeterUnavailable {
    if (credit.state === "open") return new MeterReservation(this.#deps, credit, about);
    if (credit.state !== "refused" || credit.reached === undefined) return noAnswer;
    const { window, usedMilliCu, limitMilliCu, clearsAt } = credit.reached;
    return { kind: "refused", window, usedMilliCu, limitMilliCu, clearsAt };
  }

  /** Most requests of a key have the same principal. */
  #accountOf(principal: KeyPrincipal): Account {
    let account = this.#accounts.get(principal);
    if (account === undefined) {
      account = accountOf(principal, this.#deps.link.leasesEveryKey);
      this.#accounts.set(principal, account);
    }
    return account;
  }
}

function accountOf({ key, workspace, plan }: KeyPrincipal, leasesEveryKey: boolean): Account {
  const { cuLimit24hMilli, cuLimit30dMilli } = key;
  const hasLimit = cuLimit24hMilli !== undefined || cuLimit30dMilli !== undefined;
  return {
    keyId: key.id,
    keyLimits:
      hasLimit || leasesEveryKey
        ? {
            kind: "key",
            dayMilliCu: cuLimit24hMilli ?? unlimitedMilliCu,
            monthMilliCu: cuLimit30dMilli ?? unlimitedMilliCu,
          }
        : undefined,
    workspaceId: workspace.id,
    workspaceLimits: {
      kind: "workspace",
      includedMilliCu: plan.includedMilliCu,
      purchasedMilliCu: workspace.purchasedTotalMilliCu,
      overageMilliCu:
        plan.overageUsdPerCu === undefined
          ? 0
          : (workspace.overageLimitCuMilli ?? unlimitedMilliCu),
    },
    scopes: [],
  };
}

const resolved = Promise.resolve();
const none: readonly never[] = [];

class MeterReservation implements Reservation {
  readonly kind = "reserved";
  readonly costMilliCu: number;
  readonly #deps: LeasedMeterDeps;
  readonly #credit: LeasedReservation;
  readonly #about: ReservedFor;
  #hasEnded = false;
  #recorded: Promise<void> = resolved;

  constructor(deps: LeasedMeterDeps, credit: LeasedReservation, about: ReservedFor) {
    this.#deps = deps;
    this.#credit = credit;
    this.costMilliCu = credit.costMilliCu;
    this.#about = about;
    if (about.streamed === true) deps.link.beginStream?.(credit, about);
  }

  settle(lines: readonly ChargeLine[], more: readonly Reservation[] = none): Promise<void> {
    if (this.#hasEnded) return this.#recorded;
    this.#hasEnded = true;
    let maxMilliCu = this.costMilliCu;
    let others: readonly LeasedReservation[] = none;
    for (const other of more) {
      if (!(other instanceof MeterReservation) || !other.#canPayFor(this)) continue;
      maxMilliCu += other.costMilliCu;
      other.#hasEnded = true;
      others = [...others, other.#credit];
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
    const details = cutLines(lines, maxMilliCu, metrics.cut).map((line): ChargeDetails => ({
      about: this.#about,
      line,
    }));
    const recorded = link.settle(this.#credit, details, others);
    if (lines.length > 0 && !isAsync) return recorded;
    recorded.catch(() => {});
    return wrong === undefined ? resolved : Promise.reject(notChargeable(wrong));
  }
}

export function notRecorded(): Error {
  return new Error("the charge could not be recorded");
}
