import type { Granted, LimitReached, Limits, ScopeMode, Want } from "./ledger.ts";

/**
 * | state     | meaning                                                                     | next                       |
 * | --------- | --------------------------------------------------------------------------- | -------------------------- |
 * | `new`     | the ledger has no totals of this replica: see Want                          | `leased`, `central`        |
 * | `leased`  | slack is kept, and pays for reservations                                    | `central`, `stale`, `new`  |
 * | `central` | slack is returned at once, and each reservation is granted by itself        | `leased`, `stale`, `new`   |
 * | `stale`   | the limits have changed or the month has ended, so slack must not be used   | `central` (it is returned) |
 *
 * Every state becomes `new` when the lease is not used any more, and after a fence.
 */
type State = "new" | ScopeMode | "stale";

/** A lease that was not used for this time is returned. */
const idleMs = 30_000;
/** Time for which a lease should last at the measured demand. */
const horizonMs = 5_000;
/** Demand is measured in slots of this length. */
const slotMs = 5_000;
/** A request that did not yield enough credit is repeated after this time. */
const askAgainMs = 50;
/** A refusal is repeated from memory for this time. */
const rememberMs = 1_000;
const maxNeeds = 100;

interface Statement {
  readonly epoch: number;
  readonly needs: number;
  readonly isEnd: boolean;
  /** True if the limits or the month have changed since then. */
  isOutdated: boolean;
}

const noStatement = (): Statement => ({ epoch: 0, needs: 0, isEnd: true, isOutdated: false });

export class ScopeLease<Waiting extends { readonly costMilliCu: number }> {
  readonly id: string;
  #state: State = "new";
  #limits: Limits;
  /** Totals since the replica started to count the scope. */
  granted = 0;
  #spent = 0;
  /** Sum of the open reservations that this lease covers. */
  reserved = 0;
  /**
   * The reservations that wait for credit of this scope, oldest first. The value is the epoch that must be answered
   * before the reservation may be refused; 0 before the ledger was asked.
   */
  readonly waiting = new Map<Waiting, number>();
  /** Number of settled reservations whose charges are not confirmed yet. */
  unposted = 0;
  /** True if the next lease request checks this lease. Only LeaseSet writes to it. */
  isTouched = false;
  /** True if another object stands for this scope at the next request. */
  isForgotten = false;
  /** The newest epoch that the replica has seen, and the newest one that it has answered. */
  #epoch = 0;
  #answered = 0;
  /** Undefined if the ledger may know another total, because a reply is missing. */
  #stated: Statement | undefined = noStatement();
  #askAt = 0;
  #usedAt: number;
  #refused:
    | { readonly costMilliCu: number; readonly until: number; readonly reached: LimitReached }
    | undefined;
  /** The amounts that were asked for in the current slot and in the previous one. */
  #slot = 0;
  #demand = 0;
  #demandBefore = 0;

  constructor(id: string, limits: Limits, now: number) {
    this.id = id;
    this.#limits = limits;
    this.#usedAt = now;
  }

  restart(): void {
    this.#countFromZero();
    this.reserved = 0;
    this.unposted = 0;
    this.waiting.clear();
    this.#stated = noStatement();
    this.#refused = undefined;
  }

  #countFromZero(): void {
    this.granted = 0;
    this.#spent = 0;
    this.#state = "new";
  }

  get slackMilliCu(): number {
    return this.granted - this.#spent - this.reserved;
  }

  get isWorkspace(): boolean {
    return this.#limits.kind === "workspace";
  }

  use(now: number, limits: Limits, costMilliCu: number): void {
    this.#moveTo(now);
    this.#usedAt = now;
    this.#demand += costMilliCu;
    if (isSame(limits, this.#limits)) return;
    this.#limits = limits;
    this.#refused = undefined;
    this.#makeStale();
  }

  /** Makes the replica ask the ledger at once in the new month, and fixes the last one. */
  startMonth(): void {
    if (this.isWorkspace) this.#makeStale();
  }

  #makeStale(): void {
    if (this.#state !== "new") this.#state = "stale";
    else if (this.#stated !== undefined) this.#stated.isOutdated = true;
  }

  /** Called when the ledger may have lost the granted slack, which is then stated again. */
  stateAgain(): void {
    this.#stated = undefined;
  }

  /** Called when a need of another replica has increased the epoch. */
  sawEpoch(epoch: number): void {
    this.#epoch = Math.max(this.#epoch, epoch);
  }

  /** Holds the credit of a reservation, or lets it wait. Reservations that already wait come first. */
  tryToHold(reservation: Waiting): boolean {
    const { costMilliCu } = reservation;
    const isItsTurn = this.waiting.size === 0 || this.waiting.has(reservation);
    const fits = isItsTurn && this.#state !== "stale" && costMilliCu <= this.slackMilliCu;
    if (fits || costMilliCu === 0) {
      if (this.waiting.size > 0) this.waiting.delete(reservation);
      this.reserved += costMilliCu;
      return true;
    }
    if (!this.waiting.has(reservation)) this.waiting.set(reservation, 0);
    return false;
  }

  /** Returns the remembered refusal, unless credit was freed here since then. `time`: that of the ledger. */
  refusal(now: number, time: number, costMilliCu: number): LimitReached | undefined {
    const refused = this.#refused;
    if (refused === undefined || now >= refused.until) return undefined;
    if (time >= (refused.reached.clearsAt ?? Infinity)) return undefined;
    if (costMilliCu < refused.costMilliCu || this.mayFit(costMilliCu, refused.reached))
      return undefined;
    return refused.reached;
  }

  mayFit(costMilliCu: number, { limitMilliCu, usedMilliCu }: LimitReached): boolean {
    const { slackMilliCu } = this;
    return slackMilliCu > 0 && costMilliCu <= limitMilliCu - usedMilliCu + slackMilliCu;
  }

  remember(now: number, costMilliCu: number, reached: LimitReached): void {
    this.#refused = { costMilliCu, until: now + rememberMs, reached };
  }

  /** Returns the part that the lease covers. */
  take(costMilliCu: number): number {
    const taken = Math.min(costMilliCu, this.slackMilliCu);
    this.#spent += taken;
    return taken;
  }

  /** Reverses `take`, because the charge will never be posted. */
  giveBack(taken: number): void {
    this.#spent -= taken;
  }

  isDue(now: number): boolean {
    this.#moveTo(now);
    if (this.#stated === undefined) return true;
    if (this.#state !== "new") {
      const needsHaveEnded = this.#stated.needs > 0 && this.waiting.size === 0;
      if (this.#owesAnswer || needsHaveEnded || this.#isUnused(now)) return true;
      if (this.slackMilliCu > 0 && !this.#keepsSlack(now)) return true;
    }
    return now >= this.#askAt && this.isAsking;
  }

  /** True if more credit is needed. It may be too early to ask for it. */
  get isAsking(): boolean {
    return this.waiting.size > 0 || this.#asksAhead;
  }

  /** Returns true if a new object for this scope would have the same state. */
  isForgettable(now: number): boolean {
    return this.#state === "new" && this.#stated !== undefined && this.#isUnused(now);
  }

  /** Returns unneeded credit to the ledger, in the statement that it returns. */
  state(now: number): Want {
    const { isAsking } = this;
    const keepsSlack = this.waiting.size === 0 && this.#keepsSlack(now) && !this.#owesAnswer;
    if (!keepsSlack) {
      if (this.slackMilliCu > 0) this.#refused = undefined;
      this.granted -= this.slackMilliCu;
    }
    if (this.#state === "stale") this.#state = "central";
    const isEnd = this.#isUnused(now);
    if (isEnd) this.#countFromZero();
    const needs = [...this.waiting].slice(0, maxNeeds);
    this.#stated = { epoch: this.#epoch, needs: needs.length, isEnd, isOutdated: false };
    return {
      scope: this.id,
      limits: this.#limits,
      isNew: this.#state === "new",
      grantedMilliCu: this.granted,
      slackMilliCu: this.slackMilliCu,
      needsMilliCu: needs.map(([{ costMilliCu }]) => costMilliCu),
      extraMilliCu: isAsking ? Math.max(0, this.#target - this.slackMilliCu) : 0,
      epoch: this.#epoch,
      hasNewNeeds: needs.some(([, epoch]) => epoch === 0),
    };
  }

  receive(now: number, { grantedMilliCu, epoch, mode, reached }: Granted): void {
    this.granted = grantedMilliCu;
    const stated = this.#stated;
    if (stated?.isOutdated === true) this.#state = "stale";
    else if (this.#state !== "stale" && stated?.isEnd !== true) this.#state = mode;
    this.#answered = Math.max(this.#answered, stated?.epoch ?? 0);
    this.sawEpoch(epoch);
    const isShort = reached !== undefined || this.#asksAhead;
    this.#askAt = isShort ? now + askAgainMs : now;
  }

  #keepsSlack(now: number): boolean {
    return this.#state === "leased" && !this.#isIdle(now);
  }

  get #owesAnswer(): boolean {
    return this.#answered < this.#epoch;
  }

  get #target(): number {
    return Math.round((Math.max(this.#demand, this.#demandBefore) * horizonMs) / slotMs);
  }

  get #asksAhead(): boolean {
    return this.#state !== "central" && this.slackMilliCu < this.#target / 2;
  }

  #isIdle(now: number): boolean {
    return this.waiting.size === 0 && now - this.#usedAt >= idleMs;
  }

  #isUnused(now: number): boolean {
    return this.#isIdle(now) && this.reserved === 0 && this.unposted === 0;
  }

  #moveTo(now: number): void {
    const slot = Math.floor(now / slotMs);
    if (slot === this.#slot) return;
    this.#demandBefore = slot === this.#slot + 1 ? this.#demand : 0;
    this.#demand = 0;
    this.#slot = slot;
  }
}

function isSame(left: Limits, right: Limits): boolean {
  if (left === right) return true;
  if (left.kind === "key") {
    return (
      right.kind === "key" &&
      left.dayMilliCu === right.dayMilliCu &&
      left.monthMilliCu === right.monthMilliCu
    );
  }
  return (
    right.kind === "workspace" &&
    left.includedMilliCu === right.includedMilliCu &&
    left.purchasedMilliCu === right.purchasedMilliCu &&
    left.overageMilliCu === right.overageMilliCu
  );
}
