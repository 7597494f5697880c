/** The account of one exchange: what the slot `charge` holds. */
import {
  refuse,
  type Charge,
  type ChargeLine,
  type ChargePart,
  type CuRefusal,
  type Exchange,
  type KeyPrincipal,
  type PartOptions,
  type Reply,
  type Reservation,
} from "sluice-gateway/plugin";
import { unavailable, type ChargeRefusals } from "./charge-refusals.ts";

/** A line as surfaces give it: the exchange knows its surface. */
type Line = Omit<ChargeLine, "surface">;
/** `anonymous`: `authorize` is missing before this step, or in shadow mode. Nobody is there to pay. */
type Taken = Reservation | CuRefusal | { readonly kind: "unavailable" | "anonymous" };

interface TakeOptions {
  readonly streamed?: boolean | undefined;
  readonly principal?: KeyPrincipal | undefined;
  readonly force?: boolean;
}

const unauthorized = refuse("GATEWAY_UNAUTHORIZED");

export class ExchangeCharge implements Charge {
  readonly #refusals: ChargeRefusals;
  readonly #x: Exchange;
  /** Takes the charge of `settle`; further reservations only hold credit until then, or are parts. */
  #first: Reservation | undefined;
  #more: Reservation[] | undefined;
  #commit: Promise<void> | undefined;
  #earlierCommits: Promise<void>[] | undefined;
  #usedMilli: number | undefined;
  /** The journal failed in a way that the surface was not told. */
  #failed: Reply | undefined;

  constructor(refusals: ChargeRefusals, x: Exchange) {
    this.#refusals = refusals;
    this.#x = x;
  }

  /** What could not be written is not charged. */
  get usedMilli(): number | undefined {
    const isLost = this.#commit !== undefined && this.#refusals.isLost(this.#commit);
    return isLost ? undefined : this.#usedMilli;
  }

  reserve(costMilli: number, options?: { readonly streamed?: boolean }): Reply | undefined {
    const taken = this.#take(costMilli, options);
    return taken.kind === "reserved" ? this.#hold(taken) : replyTo(taken);
  }

  open(
    costMilli: number,
    { streamed, detached = false, principal }: PartOptions = {},
  ): ChargePart | CuRefusal | { readonly kind: "unavailable" } {
    const taken = this.#take(costMilli, { streamed, principal });
    if (taken.kind === "reserved") {
      if (!detached) this.#hold(taken);
      return new Part(this, taken);
    }
    return taken.kind === "refused" ? taken : { kind: "unavailable" };
  }

  /** In shadow mode always a reservation. `force`: whatever the limits say. */
  #take(costMilli: number, { streamed, principal: payer, force }: TakeOptions = {}): Taken {
    const x = this.#x;
    const refusals = this.#refusals;
    const principal = payer ?? x.get("principal");
    if (principal.kind === "anonymous") return refusals.refused({ kind: "anonymous" }, x);
    const about = {
      requestId: x.peek("requestId") ?? "",
      surface: x.route.surface,
      agent: x.peek("agent"),
      streamed,
      ...(force === true && { force }),
    };
    const taken = refusals.meter.reserve(principal, costMilli, about);
    if (taken.kind === "reserved") return taken;
    const instead = refusals.refused(taken, x);
    if (instead.kind !== "reserved" || taken.kind !== "refused") return instead;
    const forced = refusals.meter.reserve(principal, costMilli, { ...about, force: true });
    return forced.kind === "reserved" ? forced : refusals.refused(forced, x);
  }

  #hold(reservation: Reservation): undefined {
    if (this.#first === undefined) this.#first = reservation;
    else (this.#more ??= []).push(reservation);
  }

  settle(lines: readonly Line[]): void {
    if (this.#usedMilli !== undefined) throw new Error("an exchange is settled once");
    const first = this.#first ?? this.#takeAll(lines);
    if (first === undefined) return;
    this.#first = first;
    void this.settlePart(first, lines, this.#more);
    this.release();
  }

  /** What nobody reserved is charged all the same: the work is done. */
  #takeAll(lines: readonly Line[]): Reservation | undefined {
    const total = sumOf(lines);
    const taken = this.#take(Number.isSafeInteger(total) && total > 0 ? total : 0, { force: true });
    if (taken.kind === "reserved") return taken;
    this.#failed = replyTo(taken);
    return undefined;
  }

  /** Nothing once `written` is on disk, or what to say instead. */
  replyAfter(written: Promise<void>): Promise<Reply | undefined> {
    return this.#refusals.replyAfter(written, this.#x);
  }

  /**
   * Charges one reservation, or with `more` several at once; resolves when that is on disk. For parts; `settle` is the
   * whole.
   */
  settlePart(
    reservation: Reservation,
    lines: readonly Line[],
    more: readonly Reservation[] = [],
  ): Promise<void> {
    const { surface } = this.#x.route;
    // No more than was reserved is ever charged: see `Reservation.settle`.
    let maxMilliCu = reservation.costMilli;
    for (const other of more) maxMilliCu += other.costMilli;
    const commit = reservation.settle(
      lines.map((line) => ({ ...line, surface })),
      more,
    );
    this.#usedMilli = (this.#usedMilli ?? 0) + Math.min(sumOf(lines), maxMilliCu);
    // Awaited by `written`, which does not run when the client has left.
    commit.catch(() => {});
    if (this.#commit !== undefined && this.#commit !== commit) {
      (this.#earlierCommits ??= []).push(this.#commit);
    }
    this.#commit = commit;
    return commit;
  }

  /** Before the last byte: waits until every charge is on disk; a Reply when one is not. */
  written(): Promise<Reply | undefined> | Reply | undefined {
    if (this.#failed !== undefined) return this.#failed;
    if (this.#commit === undefined) return undefined;
    const last = this.#refusals.replyAfter(this.#commit, this.#x);
    return this.#earlierCommits === undefined ? last : this.#allWritten(this.#earlierCommits, last);
  }

  async #allWritten(
    earlier: readonly Promise<void>[],
    last: Promise<Reply | undefined>,
  ): Promise<Reply | undefined> {
    for (const commit of earlier) {
      const reply = await this.#refusals.replyAfter(commit, this.#x);
      if (reply !== undefined) return reply;
    }
    return last;
  }

  /** Gives back whatever was not charged. */
  release(): void {
    this.#first?.release();
    if (this.#more === undefined) return;
    for (const reservation of this.#more) reservation.release();
  }
}

function sumOf(lines: readonly Line[]): number {
  let total = 0;
  for (const line of lines) total += line.costMilli;
  return total;
}

class Part implements ChargePart {
  readonly #charge: ExchangeCharge;
  readonly #reservation: Reservation;
  #commit: Promise<void> | undefined;

  constructor(charge: ExchangeCharge, reservation: Reservation) {
    this.#charge = charge;
    this.#reservation = reservation;
  }

  get reservedMilli(): number {
    return this.#reservation.costMilli;
  }

  settle(lines: readonly Line[]): void {
    this.#commit = this.#charge.settlePart(this.#reservation, lines);
  }

  written(): Promise<Reply | undefined> {
    if (this.#commit === undefined) throw new Error("a part is written after it is settled");
    return this.#charge.replyAfter(this.#commit);
  }

  release(): void {
    this.#reservation.release();
  }
}

/** decisions.md section 3: `window` is absent where the plan refuses. */
function replyTo(refused: Exclude<Taken, Reservation>): Reply {
  if (refused.kind !== "refused") {
    return refused.kind === "anonymous" ? unauthorized : unavailable;
  }
  const { window, usedCuMilli, limitCuMilli } = refused;
  return refuse("GATEWAY_CU_LIMIT_EXCEEDED", {
    details: {
      ...(window !== undefined && { window }),
      used_cu_milli: usedCuMilli,
      limit_cu_milli: limitCuMilli,
    },
  });
}
