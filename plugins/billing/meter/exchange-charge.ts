/** The account of one exchange: the value of the slot `charge`. */
import { refuse, type Exchange, type Reply } from "sluice-gateway/plugin";
import type {
  Charge,
  ChargeLine,
  ChargePart,
  CuRefusal,
  KeyPrincipal,
  PartOptions,
  Reservation,
} from "sluice-gateway/services";
import { unavailable, type ChargeRefusals } from "./charge-refusals.ts";

/** A line from a surface, without the surface's name, which the exchange adds. */
type Line = Omit<ChargeLine, "surface">;
/** `anonymous`: nobody can be charged, because `authorize` is missing before this step or is in shadow mode. */
type ReserveResult = Reservation | CuRefusal | { readonly kind: "unavailable" | "anonymous" };

interface ReserveOptions {
  readonly streamed?: boolean | undefined;
  readonly principal?: KeyPrincipal | undefined;
  readonly force?: boolean;
}

const unauthorized = refuse("GATEWAY_UNAUTHORIZED");

export class ExchangeCharge implements Charge {
  readonly #refusals: ChargeRefusals;
  readonly #x: Exchange;
  /** The reservation that `settle` charges. Further reservations only hold credit until then, or belong to parts. */
  #first: Reservation | undefined;
  #more: Reservation[] | undefined;
  #commit: Promise<void> | undefined;
  #earlierCommits: Promise<void>[] | undefined;
  #usedMilliCu: number | undefined;
  /** Reply for a failure of the meter during `settle`, which the surface was not notified of. */
  #failed: Reply | undefined;

  constructor(refusals: ChargeRefusals, x: Exchange) {
    this.#refusals = refusals;
    this.#x = x;
  }

  /** Undefined after a failed write, because nothing is charged then. */
  get usedMilli(): number | undefined {
    const isLost = this.#commit !== undefined && this.#refusals.isLost(this.#commit);
    return isLost ? undefined : this.#usedMilliCu;
  }

  reserve(costMilliCu: number, options?: { readonly streamed?: boolean }): Reply | undefined {
    const taken = this.#tryReserve(costMilliCu, options);
    return taken.kind === "reserved" ? this.#hold(taken) : replyTo(taken);
  }

  open(
    costMilliCu: number,
    { streamed, detached = false, principal }: PartOptions = {},
  ): ChargePart | CuRefusal | { readonly kind: "unavailable" } {
    const taken = this.#tryReserve(costMilliCu, { streamed, principal });
    if (taken.kind === "reserved") {
      if (!detached) this.#hold(taken);
      return new Part(this, taken);
    }
    return taken.kind === "refused" ? taken : { kind: "unavailable" };
  }

  /** Reserves credit. In shadow mode the result is always a reservation. `force`: ignore the limits. */
  #tryReserve(
    costMilliCu: number,
    { streamed, principal: payer, force }: ReserveOptions = {},
  ): ReserveResult {
    const x = this.#x;
    const refusals = this.#refusals;
    const principal = payer ?? x.get("principal");
    if (principal.kind === "anonymous") return refusals.refusalOrShadow({ kind: "anonymous" }, x);
    const about = {
      requestId: x.peek("requestId") ?? "",
      surface: x.route.surface,
      agent: x.peek("agent"),
      streamed,
      ...(force === true && { force }),
    };
    const taken = refusals.meter.reserve(principal, costMilliCu, about);
    if (taken.kind === "reserved") return taken;
    const instead = refusals.refusalOrShadow(taken, x);
    if (instead.kind !== "reserved" || taken.kind !== "refused") return instead;
    const forced = refusals.meter.reserve(principal, costMilliCu, { ...about, force: true });
    return forced.kind === "reserved" ? forced : refusals.refusalOrShadow(forced, x);
  }

  #hold(reservation: Reservation): undefined {
    if (this.#first === undefined) this.#first = reservation;
    else (this.#more ??= []).push(reservation);
  }

  settle(lines: readonly Line[]): void {
    if (this.#usedMilliCu !== undefined) throw new Error("an exchange is settled once");
    const first = this.#first ?? this.#reserveAll(lines);
    if (first === undefined) return;
    this.#first = first;
    void this.settlePart(first, lines, this.#more);
    this.release();
  }

  /** Reserves the sum of `lines` when nothing was reserved before. The work is done, so the limits are ignored. */
  #reserveAll(lines: readonly Line[]): Reservation | undefined {
    const total = sumOf(lines);
    const taken = this.#tryReserve(Number.isSafeInteger(total) && total > 0 ? total : 0, {
      force: true,
    });
    if (taken.kind === "reserved") return taken;
    this.#failed = replyTo(taken);
    return undefined;
  }

  /** Resolves to undefined when `written` is on disk, or to the reply to send instead of the answer. */
  replyAfter(written: Promise<void>): Promise<Reply | undefined> {
    return this.#refusals.replyAfter(written, this.#x);
  }

  /**
   * Charges one reservation, or several together with `more`. Resolves when the charge is on disk. Called for parts;
   * `settle` settles the whole exchange.
   */
  settlePart(
    reservation: Reservation,
    lines: readonly Line[],
    more: readonly Reservation[] = [],
  ): Promise<void> {
    const { surface } = this.#x.route;
    // Never more than the reserved amount is charged: see `Reservation.settle`.
    let maxMilliCu = reservation.costMilli;
    for (const other of more) maxMilliCu += other.costMilli;
    const commit = reservation.settle(
      lines.map((line) => ({ ...line, surface })),
      more,
    );
    this.#usedMilliCu = (this.#usedMilliCu ?? 0) + Math.min(sumOf(lines), maxMilliCu);
    this.#x.note("costMilliCu", this.#usedMilliCu);
    // `written` awaits this promise, but it does not run if the client has left.
    commit.catch(() => {});
    if (this.#commit !== undefined && this.#commit !== commit) {
      (this.#earlierCommits ??= []).push(this.#commit);
    }
    this.#commit = commit;
    return commit;
  }

  /** Runs before the last byte. Waits until every charge is on disk; returns a Reply if one could not be written. */
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

  /** Releases all credit that was not charged. */
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

/** Omits `window` if the limit is that of the plan (decisions.md section 3). */
function replyTo(refused: Exclude<ReserveResult, Reservation>): Reply {
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
