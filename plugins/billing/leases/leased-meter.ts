/** The meter of a gateway that shares the credit of its database with other gateways. */
import type { Clock } from "sluice-gateway/plugin";
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
import type { LedgerReplica } from "./replica.ts";
import type { Account, LeasedReservation } from "./leased-reservation.ts";
import { MeterReservation, type MeterReservationDeps } from "./meter-reservation.ts";

export interface LeasedMeterDeps extends MeterReservationDeps {
  readonly replica: LedgerReplica;
  /** Timer of the sweeps. It is disposed of with the meter. */
  readonly sweeper: Disposable;
  readonly clock: Clock;
}

/** Why no charge can be made while `writable` is false. */
export const notAvailable = {
  kind: "unavailable",
  reason: "PostgreSQL does not answer",
} as const satisfies MeterUnavailable;
const noAnswer: MeterUnavailable = {
  kind: "unavailable",
  reason: "PostgreSQL, or a gateway that holds the credit, did not answer in time",
};
/** Interval at which the open reservations and the slack are measured. The slack requires a look at every lease. */
const sampleMs = 1_000;

export class LeasedMeter implements Pick<Meter, "reserve" | "reserveWithoutLimit"> {
  readonly #deps: LeasedMeterDeps;
  readonly #sampler: Disposable;

  constructor(deps: LeasedMeterDeps) {
    this.#deps = deps;
    this.#sampler = deps.clock.every(sampleMs, () => this.#sample());
  }

  /**
   * Reserves credit. Credit that this gateway already holds is reserved at once. The result is a promise if more must
   * be requested from PostgreSQL.
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
    const { link, metrics } = this.#deps;
    if (!link.isAvailable) return notAvailable;
    const credit = link.reserve(accountOf(principal), costMilliCu);
    if (credit.state !== "waiting") return this.#resultOf(credit, about);
    metrics.waits.add(1);
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
    const { link } = this.#deps;
    if (!link.isAvailable) return notAvailable;
    return new MeterReservation(
      this.#deps,
      link.reserve(accountOf(principal), costMilliCu, true),
      about,
    );
  }

  /** True if a charge can be made now. */
  get writable(): boolean {
    return this.#deps.link.isAvailable;
  }

  /** Posts all charges and returns all credit, within a few seconds. */
  async close(): Promise<void> {
    this.#sampler[Symbol.dispose]();
    this.#deps.sweeper[Symbol.dispose]();
    await this.#deps.link.close();
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

  #sample(): void {
    const { metrics, replica } = this.#deps;
    metrics.openReservations.set(replica.credit.reservations);
    metrics.queuedCharges.set(replica.queuedCharges);
    let slackMilliCu = 0;
    let reservedMilliCu = 0;
    let scopes = 0;
    for (const lease of replica.credit.scopes) {
      const slack = lease.slackMilliCu;
      slackMilliCu += slack;
      reservedMilliCu += lease.reserved;
      if (slack > 0 || lease.reserved > 0) scopes++;
    }
    metrics.slackMilliCu.set(slackMilliCu);
    metrics.reservedMilliCu.set(reservedMilliCu);
    metrics.scopes.set(scopes);
  }
}

function accountOf({ key, workspace, plan }: KeyPrincipal): Account {
  const { cuLimit24hMilli, cuLimit30dMilli } = key;
  return {
    keyId: key.id,
    keyLimits:
      cuLimit24hMilli === undefined && cuLimit30dMilli === undefined
        ? undefined
        : {
            kind: "key",
            dayMilliCu: cuLimit24hMilli ?? unlimitedMilliCu,
            monthMilliCu: cuLimit30dMilli ?? unlimitedMilliCu,
          },
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
