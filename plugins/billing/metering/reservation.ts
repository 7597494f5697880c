/** One reservation, from its taking to its end. */
import type { KeyPrincipal } from "../../../src/services/accounts.ts";
import type { ChargeLine, Reservation } from "../../../src/services/meter.ts";
import type { CreditBook, KeyCredit, WorkspaceCredit } from "./credit.ts";

/** Who is told how a reservation ends: the meter. */
export interface Ender {
  readonly book: CreditBook;
  /** Never throws. `roomMilli`: the most that may be charged. */
  settle(
    reservation: OpenReservation,
    lines: readonly ChargeLine[],
    roomMilli: number,
  ): Promise<void>;
  release(reservation: OpenReservation): void;
}

export class OpenReservation implements Reservation {
  readonly kind = "reserved";
  readonly costMilli: number;
  readonly principal: KeyPrincipal;
  readonly key: KeyCredit;
  readonly workspace: WorkspaceCredit;
  /** What its charges say of the request. */
  readonly text: string;
  /** Its number in the journal; 0: it has no intent there. */
  readonly intent: number;
  readonly #ender: Ender;
  #ended: Promise<void> | undefined;

  constructor(
    ender: Ender,
    principal: KeyPrincipal,
    key: KeyCredit,
    workspace: WorkspaceCredit,
    costMilli: number,
    text: string,
    intent: number,
  ) {
    this.#ender = ender;
    this.principal = principal;
    this.key = key;
    this.workspace = workspace;
    this.costMilli = costMilli;
    this.text = text;
    this.intent = intent;
    ender.book.hold(key, workspace, costMilli);
  }

  /** A second call answers as the first did and charges nothing; so does a call after `release`. */
  settle(lines: readonly ChargeLine[], more: readonly Reservation[] = []): Promise<void> {
    if (this.#ended !== undefined) return this.#ended;
    let roomMilli = this.costMilli;
    for (const other of more) {
      if (!(other instanceof OpenReservation) || !other.#isOpenFor(this.key)) continue;
      roomMilli += other.costMilli;
      other.release();
    }
    this.#ended = this.#ender.settle(this, lines, roomMilli);
    return this.#ended;
  }

  /** Whether it still holds credit of that key. */
  #isOpenFor(key: KeyCredit): boolean {
    return this.#ended === undefined && this.key === key;
  }

  release(): void {
    if (this.#ended !== undefined) return;
    this.#ended = released;
    this.#ender.release(this);
  }

  /** Gives back what was held. For the ender, once. */
  free(): void {
    this.#ender.book.free(this.key, this.workspace, this.costMilli);
  }
}

const released = Promise.resolve();
