/**
 * Credit of one exchange, from `reserve` until it is charged or released.
 *
 * | state      | entered by            | holds credit | written to the journal               |
 * | ---------- | --------------------- | ------------ | ------------------------------------ |
 * | `open`     | `CreditMeter.reserve` | yes          | an intent, if the answer is streamed |
 * | `waiting`  | `settle`, while the journal is corrected | yes | nothing                    |
 * | `settled`  | `settle`              | no           | a charge per line                    |
 * | `released` | `release`             | no           | the end of the intent                |
 *
 * A reservation leaves `open` once, and later calls change nothing. `settle` leads to `released` if there is nothing to
 * charge, if a line cannot be charged or if the journal has no room. It also releases the reservations whose credit pays
 * for the same lines (`more`).
 */
import type { ChargeLine, KeyPrincipal, Reservation } from "sluice-gateway/services";
import { withPricing } from "./charge-text.ts";
import { cutLines, isChargeable, notChargeable, sumOf } from "./charge-lines.ts";
import type { CreditBook, KeyCredit, WorkspaceCredit } from "./credit.ts";
import type { CommitPriority, Journal } from "./journal.ts";
import type { MeterTime } from "./meter-time.ts";
import type { MeterMetrics } from "./metrics.ts";
import type { Split } from "./periods.ts";
import { closeReason } from "./records.ts";

/** The objects that all reservations of a meter share. */
export interface ReservationDeps {
  /** Another one after a correction. */
  journal: Journal;
  /** Ends when the journal can be used again. Undefined unless it is being corrected. */
  correcting: Promise<void> | undefined;
  readonly book: CreditBook;
  readonly metrics: MeterMetrics;
  readonly time: MeterTime;
  /** True if `settle` does not wait for the disk. */
  readonly isAsync: boolean;
}

/** The credit that a reservation takes, and its payer. */
export interface ReservedCredit {
  readonly principal: KeyPrincipal;
  readonly key: KeyCredit;
  readonly workspace: WorkspaceCredit;
  readonly costMilliCu: number;
  /** Text of the charges: see charge-text.ts. */
  readonly text: string;
  /** Path of the route of the request. */
  readonly route: string | undefined;
  /** Number of the intent in the journal. 0 if there is none. */
  readonly intent: number;
}

const resolved = Promise.resolve();
/** Scratch memory of `#charge`, which the journal copies. */
const split: Split = { includedMilliCu: 0, purchasedMilliCu: 0, overageMilliCu: 0 };

export class CreditReservation implements Reservation {
  readonly kind = "reserved";
  readonly #deps: ReservationDeps;
  readonly #credit: ReservedCredit;
  #state: "open" | "waiting" | "settled" | "released" = "open";
  /** The result of `settle`. */
  #written: Promise<void> = resolved;

  /** Takes the credit from the key and its workspace. The caller has checked the limits. */
  constructor(deps: ReservationDeps, credit: ReservedCredit) {
    this.#deps = deps;
    this.#credit = credit;
    deps.book.hold(credit.key, credit.workspace, credit.costMilliCu);
  }

  get costMilliCu(): number {
    return this.#credit.costMilliCu;
  }

  /**
   * Callers run in handlers of sockets and timers, where nothing catches an error. A line that cannot be charged
   * therefore rejects, and the reservation ends without a charge. A second call returns the promise of the first.
   */
  settle(lines: readonly ChargeLine[], more: readonly Reservation[] = []): Promise<void> {
    if (this.#state !== "open") return this.#written;
    let maxMilliCu = this.#credit.costMilliCu;
    for (const other of more) {
      if (!(other instanceof CreditReservation) || !other.#canPayFor(this)) continue;
      maxMilliCu += other.costMilliCu;
      other.release();
    }
    const { correcting } = this.#deps;
    if (correcting === undefined) this.#written = this.#settleUpTo(maxMilliCu, lines);
    else {
      this.#state = "waiting";
      this.#written = correcting.then(() => this.#settleUpTo(maxMilliCu, lines));
    }
    return this.#written;
  }

  release(): void {
    if (this.#state === "open") this.#endWithoutCharge(closeReason.released);
  }

  #canPayFor(other: CreditReservation): boolean {
    return this !== other && this.#state === "open" && this.#credit.key === other.#credit.key;
  }

  #settleUpTo(maxMilliCu: number, given: readonly ChargeLine[]): Promise<void> {
    const wrong = given.find((line) => !isChargeable(line));
    if (wrong !== undefined || given.length === 0) {
      this.#endWithoutCharge(closeReason.settled);
      return wrong === undefined ? resolved : Promise.reject(notChargeable(wrong));
    }
    const { journal, metrics, time, isAsync } = this.#deps;
    const { key, workspace } = this.#credit;
    const now = time.now();
    const lines = cutLines(given, maxMilliCu, (surface, milliCu) =>
      metrics.cut(surface).add(milliCu),
    );
    if (!journal.hasRoom(lines.length)) {
      this.#giveBack("released");
      return Promise.reject(new Error("the journal cannot be written"));
    }
    this.#giveBack("settled");
    workspace.roll(time.periodStart(now));
    key.add(now, sumOf(lines));
    key.number ||= journal.nameNumber(key.id);
    workspace.number ||= journal.nameNumber(workspace.id);
    for (const line of lines) this.#charge(line, now);
    const written = journal.publish(lines.length, this.#priority());
    return isAsync ? resolved : written;
  }

  #charge(line: ChargeLine, now: number): void {
    const { journal, metrics } = this.#deps;
    const { principal, key, workspace, intent, text, route } = this.#credit;
    workspace.draw(line.costMilliCu, principal.plan, principal.workspace, split);
    journal.appendCharge({
      key: key.number,
      workspace: workspace.number,
      surface: journal.nameNumber(line.surface),
      method: journal.nameNumber(line.method),
      model: line.model === undefined ? 0 : journal.nameNumber(line.model),
      outcome: line.outcome === undefined ? 0 : journal.nameNumber(line.outcome),
      time: now,
      split,
      inputTokens: line.inputTokens ?? 0,
      outputTokens: line.outputTokens ?? 0,
      cachedTokens: line.cachedTokens ?? 0,
      reasoningTokens: line.reasoningTokens ?? 0,
      estimated: line.estimated === true,
      route: route === undefined ? 0 : journal.nameNumber(route),
      intent,
      text: withPricing(text, line.pricing),
    });
    metrics.charged(line.surface).add(line.costMilliCu);
  }

  /** If the intent cannot be closed now, it expires at the next start. */
  #endWithoutCharge(why: number): void {
    this.#giveBack("released");
    const { journal, time } = this.#deps;
    const { intent } = this.#credit;
    if (intent === 0 || !journal.hasRoom(1)) return;
    journal.appendClosed(time.now(), intent, why);
    void journal.publish(1, "deferred");
  }

  #giveBack(state: "settled" | "released"): void {
    this.#state = state;
    const { key, workspace, costMilliCu } = this.#credit;
    this.#deps.book.free(key, workspace, costMilliCu);
  }

  /**
   * Returns `deferred` for the end of a stream, which may be committed a few milliseconds later, and for charges that
   * no caller waits for.
   */
  #priority(): CommitPriority {
    if (this.#deps.isAsync) return "deferred";
    if (this.#deps.book.holders === 0) return "immediate";
    return this.#credit.intent === 0 ? "batched" : "deferred";
  }
}
