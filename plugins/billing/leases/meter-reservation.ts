/** Leased credit of one exchange, for the step `meter`. Implements `Reservation`. */
import type { ChargeLine, Reservation, ReservedFor } from "sluice-gateway/services";
import { chargeText, readChargeText, withPricing } from "../metering/charge-text.ts";
import { cutLines, isChargeable, notChargeable } from "../metering/charge-lines.ts";
import { agentJson, pricingJson } from "../metering/usage-json.ts";
import type { LedgerLink } from "./ledger-link.ts";
import type { ChargeDetails, ReplicaMode } from "./ledger.ts";
import type { LeasedLine, LeasedReservation } from "./leased-reservation.ts";
import type { LeaseMetrics } from "./metrics.ts";

/** The objects that all reservations of a meter share. */
export interface MeterReservationDeps {
  readonly link: LedgerLink;
  readonly metrics: LeaseMetrics;
  /** `settle` waits for PostgreSQL with `settled`, and for nothing with `async`. */
  readonly mode: ReplicaMode;
}

const resolved = Promise.resolve();

export class MeterReservation implements Reservation {
  readonly kind = "reserved";
  /** The cost at `reserve`. */
  readonly costMilliCu: number;
  readonly #deps: MeterReservationDeps;
  readonly #credit: LeasedReservation;
  /** Id of the request, and the agent: see charge-text.ts. */
  readonly #text: string;
  readonly #route: string | undefined;
  #hasEnded = false;
  /** The result of `settle`. */
  #posted: Promise<void> = resolved;

  /** `credit`: an open reservation. */
  constructor(deps: MeterReservationDeps, credit: LeasedReservation, about: ReservedFor) {
    this.#deps = deps;
    this.#credit = credit;
    this.costMilliCu = credit.costMilliCu;
    this.#text = chargeText(about.requestId, about.agent);
    this.#route = about.route;
  }

  /** A second call returns the promise of the first. */
  settle(lines: readonly ChargeLine[], more: readonly Reservation[] = []): Promise<void> {
    if (this.#hasEnded) return this.#posted;
    this.#hasEnded = true;
    let maxMilliCu = this.costMilliCu;
    const others: LeasedReservation[] = [];
    for (const other of more) {
      if (!(other instanceof MeterReservation) || !other.#canPayFor(this)) continue;
      maxMilliCu += other.costMilliCu;
      other.#hasEnded = true;
      others.push(other.#credit);
    }
    this.#posted = this.#settleUpTo(maxMilliCu, lines, others);
    return this.#posted;
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
    const { link, metrics, mode } = this.#deps;
    const credit = this.#credit;
    const wrong = given.find((line) => !isChargeable(line));
    const lines = wrong === undefined ? given : [];
    const cut = cutLines(lines, maxMilliCu, (surface, milliCu) =>
      metrics.cut(surface).add(milliCu),
    );
    // The replica was fenced, and the credit could not be reserved again.
    if (credit.state === "lost") {
      for (const other of others) link.release(other);
      return Promise.reject(notPosted());
    }
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    credit.onChange = () => {
      if (credit.state === "lost") reject(notPosted());
      if (credit.state !== "posted") return;
      credit.onChange = undefined;
      for (const { surface, costMilliCu } of cut) metrics.charged(surface).add(costMilliCu);
      resolve();
    };
    link.settle(
      credit,
      cut.map((line) => this.#leasedLine(line)),
      others,
    );
    if (wrong !== undefined) return Promise.reject(notChargeable(wrong));
    if (lines.length === 0) return resolved;
    if (mode !== "async") return promise;
    promise.catch(() => {});
    return resolved;
  }

  #leasedLine(line: ChargeLine): LeasedLine {
    const text = withPricing(this.#text, line.pricing);
    const { requestId, agent, pricing } = readChargeText(text);
    const details: ChargeDetails = {
      surface: line.surface,
      method: line.method,
      model: line.model ?? null,
      request_id: requestId,
      input_tokens: line.inputTokens ?? 0,
      output_tokens: line.outputTokens ?? 0,
      ...(pricing?.classes !== undefined && {
        cached_tokens: line.cachedTokens ?? 0,
        reasoning_tokens: line.reasoningTokens ?? 0,
      }),
      estimated: line.estimated === true,
      outcome: line.outcome ?? "complete",
      ...(agent !== undefined && { agent: agentJson(agent) }),
      ...(pricing !== undefined && { pricing: pricingJson(pricing) }),
      ...(this.#route !== undefined && { route: this.#route }),
    };
    return { costMilliCu: line.costMilliCu, details };
  }
}

function notPosted(): Error {
  return new Error("the charge could not be recorded");
}
