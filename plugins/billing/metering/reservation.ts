/** One reservation, from its creation to its end. */
import type { ChargeLine, KeyPrincipal, Reservation } from "sluice-gateway/services";
import type { CreditBook, KeyCredit, WorkspaceCredit } from "./credit.ts";

/** The meter, which is notified when a reservation ends. */
export interface ReservationOwner {
  readonly book: CreditBook;
  /** Never throws. `maxMilliCu`: maximum amount to charge. */
  settle(
    reservation: OpenReservation,
    lines: readonly ChargeLine[],
    maxMilliCu: number,
  ): Promise<void>;
  release(reservation: OpenReservation): void;
}

export class OpenReservation implements Reservation {
  readonly kind = "reserved";
  readonly costMilli: number;
  readonly principal: KeyPrincipal;
  readonly key: KeyCredit;
  readonly workspace: WorkspaceCredit;
  /** Text of its charges: see charge-text.ts. */
  readonly text: string;
  /** Number of its intent in the journal. 0 if it has no intent. */
  readonly intent: number;
  readonly #owner: ReservationOwner;
  #ended: Promise<void> | undefined;

  constructor(
    owner: ReservationOwner,
    principal: KeyPrincipal,
    key: KeyCredit,
    workspace: WorkspaceCredit,
    costMilliCu: number,
    text: string,
    intent: number,
  ) {
    this.#owner = owner;
    this.principal = principal;
    this.key = key;
    this.workspace = workspace;
    this.costMilli = costMilliCu;
    this.text = text;
    this.intent = intent;
    owner.book.hold(key, workspace, costMilliCu);
  }

  /** A second call returns the promise of the first and charges nothing. After `release`, it charges nothing either. */
  settle(lines: readonly ChargeLine[], more: readonly Reservation[] = []): Promise<void> {
    if (this.#ended !== undefined) return this.#ended;
    let maxMilliCu = this.costMilli;
    for (const other of more) {
      if (!(other instanceof OpenReservation) || !other.#isOpenFor(this.key)) continue;
      maxMilliCu += other.costMilli;
      other.release();
    }
    this.#ended = this.#owner.settle(this, lines, maxMilliCu);
    return this.#ended;
  }

  /** Returns true if the reservation is open and belongs to `key`. */
  #isOpenFor(key: KeyCredit): boolean {
    return this.#ended === undefined && this.key === key;
  }

  release(): void {
    if (this.#ended !== undefined) return;
    this.#ended = released;
    this.#owner.release(this);
  }

  /** Releases the held credit. Called once, by the owner. */
  free(): void {
    this.#owner.book.free(this.key, this.workspace, this.costMilli);
  }
}

const released = Promise.resolve();
