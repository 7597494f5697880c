/** The meter of a gateway: it reserves and charges inside the credit that the authority has leased to this gateway. */
import type {
  CuRefusal,
  KeyPrincipal,
  Meter,
  MeterUnavailable,
  Reservation,
  ReservedFor,
} from "sluice-gateway/services";
import { isAmount, notAnAmount } from "../metering/charge-lines.ts";
import { unlimitedMilliCu } from "./ledger.ts";
import type { Account, LeasedReservation } from "./leased-reservation.ts";
import { MeterReservation, type MeterReservationDeps } from "./meter-reservation.ts";

export interface LeasedMeterDeps extends MeterReservationDeps {
  /** Why no charge can be made while `writable` is false. */
  readonly unavailable: MeterUnavailable;
}

const noAnswer: MeterUnavailable = {
  kind: "unavailable",
  reason: "PostgreSQL, or a gateway that holds the credit, did not answer in time",
};

export class LeasedMeter implements Pick<Meter, "reserve" | "reserveWithoutLimit"> {
  readonly #deps: LeasedMeterDeps;
  readonly #accounts = new WeakMap<KeyPrincipal, Account>();

  constructor(deps: LeasedMeterDeps) {
    this.#deps = deps;
  }

  /**
   * Reserves credit. Credit that this gateway already holds is reserved at once. The result is a promise if more must
   * be requested from another host.
   */
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

  /** True if a charge can be made now. */
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
  };
}
