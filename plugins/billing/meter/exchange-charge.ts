/**
 * The charge of one exchange: the state of the step `meter`, and the value of the slot `charge`.
 *
 * | state      | entered by                   | reserved credit          | `usedMilliCu`        |
 * | ---------- | ---------------------------- | ------------------------ | ------------------ |
 * | `empty`    | `createState` of the step    | none                     | undefined          |
 * | `reserved` | `reserve`, `open`            | one reservation per call | undefined          |
 * | `settled`  | `settle`, `settle` of a part | that of parts still open | sum of the charges |
 * | `released` | `release`                    | that of detached parts   | sum of the charges |
 *
 * An exchange with parts is `settled` after its first part has settled. `usedMilliCu` is undefined again if the last
 * commit could not be written.
 */
import type { Awaitable, Exchange, Reply } from "sluice-gateway/plugin";
import type {
  Charge,
  ChargeLine,
  ChargePart,
  CuRefusal,
  MeterUnavailable,
  PartOptions,
  Reservation,
} from "sluice-gateway/services";
import { andThen } from "sluice-gateway/internal/toolkit";
import type { CommitReplies } from "./commit-replies.ts";
import { replyTo, unavailable, type Reserver } from "./reserve.ts";

type Line = Omit<ChargeLine, "surface">;

export interface ExchangeChargeDeps {
  readonly reserver: Reserver;
  readonly commits: CommitReplies;
  /** Returns the result of a reservation as surfaces get it. */
  readonly taken: <T>(result: Awaitable<T>) => Awaitable<T>;
}

export class ExchangeCharge implements Charge {
  readonly #deps: ExchangeChargeDeps;
  readonly #x: Exchange;
  /** The reservation that `settle` charges. Further reservations only hold credit until then, or belong to parts. */
  #first: Reservation | undefined;
  #more: Reservation[] | undefined;
  #commit: Promise<void> | undefined;
  #earlierCommits: EarlierCommits | undefined;
  #usedMilliCu: number | undefined;
  /** True after `release`. Credit that is granted later is released at once. */
  #isReleased = false;
  /** Reply for a failure of the meter during `settle`. The surface does not get this failure. */
  #failed: Reply | undefined;

  constructor(deps: ExchangeChargeDeps, x: Exchange) {
    this.#deps = deps;
    this.#x = x;
  }

  /** Undefined after a failed write, because nothing is charged then. */
  get usedMilliCu(): number | undefined {
    const isLost = this.#commit !== undefined && this.#deps.commits.isLost(this.#commit);
    return isLost ? undefined : this.#usedMilliCu;
  }

  reserve(
    costMilliCu: number,
    options?: { readonly streamed?: boolean },
  ): Awaitable<Reply | undefined> {
    const taking = this.#deps.reserver.reserve(this.#x, costMilliCu, options);
    const hasWaited = taking instanceof Promise;
    const result = andThen(taking, (taken) => {
      if (taken.kind !== "reserved") return replyTo(taken);
      return this.#hold(taken, hasWaited) ? undefined : unavailable;
    });
    return this.#deps.taken(result);
  }

  open(
    costMilliCu: number,
    { streamed, detached = false, principal }: PartOptions = {},
  ): Awaitable<ChargePart | CuRefusal | MeterUnavailable> {
    const taking = this.#deps.reserver.reserve(this.#x, costMilliCu, { streamed, principal });
    const hasWaited = taking instanceof Promise;
    const result = andThen(taking, (taken): ChargePart | CuRefusal | MeterUnavailable => {
      if (taken.kind === "refused") return taken;
      if (taken.kind !== "reserved") return { kind: "unavailable" };
      if (!detached && !this.#hold(taken, hasWaited)) return { kind: "unavailable" };
      return this.#partOf(taken);
    });
    return this.#deps.taken(result);
  }

  #partOf(taken: Reservation): ChargePart {
    let commit: Promise<void> | undefined;
    return {
      reservedMilliCu: taken.costMilliCu,
      settle: (lines) => {
        commit = this.#charge(taken, lines);
      },
      written: () => {
        if (commit === undefined) throw new Error("a part is written after it is settled");
        return this.#deps.commits.replyAfter(commit, this.#x);
      },
      release: () => taken.release(),
    };
  }

  /**
   * Returns false and releases the credit if the exchange has ended, or if the client disconnected during an
   * asynchronous reservation (`hasWaited`). The work has not started at that time, and no one would read its result.
   */
  #hold(reservation: Reservation, hasWaited: boolean): boolean {
    if (this.#isReleased || (hasWaited && this.#x.aborted)) {
      reservation.release();
      return false;
    }
    if (this.#first === undefined) this.#first = reservation;
    else (this.#more ??= []).push(reservation);
    return true;
  }

  settle(lines: readonly Line[]): void {
    if (this.#usedMilliCu !== undefined) throw new Error("an exchange is settled once");
    const first = this.#first ?? this.#reserveAll(lines);
    if (first === undefined) return;
    this.#first = first;
    void this.#charge(first, lines, this.#more);
    this.#releaseHeld();
  }

  /** Reserves the sum of `lines` when nothing was reserved before. The work is done, so the limits are ignored. */
  #reserveAll(lines: readonly Line[]): Reservation | undefined {
    const totalMilliCu = sumOf(lines);
    const costMilliCu = Number.isSafeInteger(totalMilliCu) ? Math.max(totalMilliCu, 0) : 0;
    const taken = this.#deps.reserver.reserveWithoutLimit(this.#x, costMilliCu);
    if (taken.kind === "reserved") return taken;
    this.#failed = replyTo(taken);
    return undefined;
  }

  #charge(
    reservation: Reservation,
    lines: readonly Line[],
    more: readonly Reservation[] = [],
  ): Promise<void> {
    const { surface } = this.#x.route;
    // Never more than the reserved amount is charged: see `Reservation.settle`.
    let maxMilliCu = reservation.costMilliCu;
    for (const other of more) maxMilliCu += other.costMilliCu;
    const commit = reservation.settle(
      lines.map((line) => ({ ...line, surface })),
      more,
    );
    this.#usedMilliCu = (this.#usedMilliCu ?? 0) + Math.min(sumOf(lines), maxMilliCu);
    this.#x.note("costMilliCu", this.#usedMilliCu);
    // `written` awaits this promise, but it does not run if the client has disconnected.
    commit.catch(() => {});
    if (this.#commit !== undefined && this.#commit !== commit) {
      (this.#earlierCommits ??= new EarlierCommits()).add(this.#commit);
    }
    this.#commit = commit;
    return commit;
  }

  /** Runs before the last byte. Waits until every charge is on disk; returns a Reply if one could not be written. */
  written(): Promise<Reply | undefined> | Reply | undefined {
    if (this.#failed !== undefined) return this.#failed;
    if (this.#commit === undefined) return undefined;
    const last = this.#deps.commits.replyAfter(this.#commit, this.#x);
    const earlier = this.#earlierCommits?.unwritten ?? [];
    return earlier.length === 0 ? last : this.#allWritten(earlier, last);
  }

  async #allWritten(
    earlier: readonly Promise<void>[],
    last: Promise<Reply | undefined>,
  ): Promise<Reply | undefined> {
    for (const commit of earlier) {
      const reply = await this.#deps.commits.replyAfter(commit, this.#x);
      if (reply !== undefined) return reply;
    }
    return last;
  }

  release(): void {
    this.#isReleased = true;
    this.#releaseHeld();
  }

  #releaseHeld(): void {
    this.#first?.release();
    if (this.#more === undefined) return;
    for (const reservation of this.#more) reservation.release();
  }
}

function sumOf(lines: readonly Line[]): number {
  let sumMilliCu = 0;
  for (const line of lines) sumMilliCu += line.costMilliCu;
  return sumMilliCu;
}

/**
 * The commits of one exchange before its last one. A connection can stay open for days and make a commit per message,
 * so a commit is forgotten as soon as its charges are on disk.
 */
class EarlierCommits {
  readonly #pending = new Set<Promise<void>>();
  /** The first commit that could not be written. Further ones have the same consequence. */
  #failed: Promise<void> | undefined;

  add(commit: Promise<void>): void {
    if (this.#failed !== undefined || this.#pending.has(commit)) return;
    this.#pending.add(commit);
    commit.then(
      () => this.#pending.delete(commit),
      () => {
        this.#failed ??= commit;
        this.#pending.clear();
      },
    );
  }

  get unwritten(): readonly Promise<void>[] {
    return this.#failed === undefined ? [...this.#pending] : [this.#failed];
  }
}
