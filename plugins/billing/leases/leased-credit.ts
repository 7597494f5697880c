/**
 * Reserves and charges credit inside what the ledger has leased to this replica. It has no timers and sends nothing:
 * its owner passes the time and the replies, and sends the statements that it returns.
 */
import { add } from "./amounts.ts";
import type {
  Granted,
  LeasedCharge,
  LimitReached,
  Limits,
  Want,
  WorkspaceLimits,
} from "./ledger.ts";
import { periodOf } from "../metering/periods.ts";
import { ScopeLease } from "./scope-lease.ts";

/** The payer, and the limits that apply. A changed limit must be a new object. */
export interface Account {
  readonly keyId: string;
  /** Undefined if neither window of the key has a limit. Such a key needs no lease. */
  readonly keyLimits: Limits | undefined;
  readonly workspaceId: string;
  readonly workspaceLimits: WorkspaceLimits;
  /** True if a charge that nothing covers is billed as overage. Otherwise it overdraws the included amount. */
  readonly hasOverage: boolean;
}

/** One line of the charge of a reservation. */
export interface LeasedLine {
  readonly id: string;
  readonly costMilliCu: number;
}

/**
 * | state       | meaning                                                                                        |
 * | ----------- | ---------------------------------------------------------------------------------------------- |
 * | waiting     | a lease is being asked for                                                                     |
 * | open        | the credit is reserved                                                                         |
 * | settling    | charged; the ledger has not confirmed it                                                       |
 * | posted      | charged, and confirmed                                                                         |
 * | refused     | a limit is reached: `reached`                                                                  |
 * | unavailable | the ledger did not answer                                                                      |
 * | released    | ended without a charge                                                                         |
 * | lost        | the replica was fenced, and the credit could not be reserved again. It is certainly not charged |
 */
export type LeasedState =
  | "waiting"
  | "open"
  | "settling"
  | "posted"
  | "refused"
  | "unavailable"
  | "released"
  | "lost";

type Lease = ScopeLease<LeasedReservation>;

/** A reservation. Only LeasedCredit and its owner write to it. */
export interface LeasedReservation {
  readonly account: Account;
  /** The scopes that have a limit, the workspace first, because it takes longest to clear. */
  readonly scopes: readonly Lease[];
  readonly costMilliCu: number;
  /** True if it may exceed every limit, for a meter in shadow mode. */
  readonly isForced: boolean;
  state: LeasedState;
  /** The scopes whose lease covers it. While it waits, it keeps what it has, so that two scopes cannot take turns. */
  readonly heldIn: Lease[];
  waitsSince: number;
  /** True if it was open or settled before the replica was fenced. */
  isRecovering: boolean;
  /** Set when it is settled. */
  lines: readonly LeasedLine[] | undefined;
  reached: LimitReached | undefined;
}

/** The charges of one reservation. They are posted together. */
export interface Settlement {
  readonly reservation: LeasedReservation;
  readonly charges: readonly LeasedCharge[];
}

/** After this time of waiting, a later source is asked for although another replica may hold slack of an earlier one. */
const anySourceMs = 300;
/**
 * After this time of waiting, a reservation is refused with the numbers of the ledger. A recall takes up to 430 ms if
 * every message takes 10 ms: the others poll every 250 ms and may have a request on its way.
 */
const refuseMs = 500;
/** After this time without an answer of the ledger, a reservation ends. */
const giveUpMs = 2_000;

export class LeasedCredit {
  readonly #horizonMs: number;
  readonly #scopes = new Map<string, Lease>();
  /** Reservations that are waiting or open. */
  readonly #reservations = new Set<LeasedReservation>();
  /** The scopes of the lease request in flight, with the reservations that it states. */
  #asked: ReadonlyMap<Lease, readonly LeasedReservation[]> | undefined;
  /** Estimated time of the ledger in milliseconds since 1970. It never goes back. */
  #time = 0;
  /** Waiting reservations that have ended, and settlements that must be posted. The owner takes them. */
  ended: LeasedReservation[] = [];
  settled: Settlement[] = [];

  /** `horizonMs`: a lease is to last for so long. */
  constructor(horizonMs: number) {
    this.#horizonMs = horizonMs;
  }

  /** Number of reservations that are waiting or open. */
  get reservations(): number {
    return this.#reservations.size;
  }

  get scopes(): Iterable<Lease> {
    return this.#scopes.values();
  }

  /** The time of a charge is never before that of a grant that it uses, so it is drawn in the month of the grant. */
  moveTo(time: number): void {
    if (time <= this.#time) return;
    const isNewMonth = periodOf(time).start > this.#time;
    this.#time = time;
    if (isNewMonth) for (const scope of this.#scopes.values()) scope.startMonth();
  }

  /** Reserves in all scopes or in none. The result is open, waiting or refused. */
  reserve(now: number, account: Account, costMilliCu: number, isForced = false): LeasedReservation {
    const scopes = [this.#scope(account.workspaceId, account.workspaceLimits, now)];
    scopes[0]?.use(now, account.workspaceLimits, costMilliCu);
    if (account.keyLimits !== undefined) {
      const key = this.#scope(account.keyId, account.keyLimits, now);
      key.use(now, account.keyLimits, costMilliCu);
      scopes.push(key);
    }
    const reservation: LeasedReservation = {
      account,
      scopes,
      costMilliCu,
      isForced,
      state: "waiting",
      heldIn: [],
      waitsSince: now,
      isRecovering: false,
      lines: undefined,
      reached: undefined,
    };
    this.#reservations.add(reservation);
    this.#tryToOpen(reservation);
    if (reservation.state !== "waiting") return reservation;
    for (const scope of scopes) reservation.reached ??= scope.refusal(now, costMilliCu);
    if (reservation.reached !== undefined) this.#end(reservation, "refused");
    return reservation;
  }

  /** Charges an open reservation. A cost above the reservation counts at once, covered or not. */
  settle(reservation: LeasedReservation, lines: readonly LeasedLine[]): void {
    if (reservation.lines !== undefined || !this.#reservations.has(reservation)) return;
    if (lines.length === 0) return this.release(reservation);
    reservation.lines = lines;
    if (reservation.state === "open") this.#charge(reservation);
  }

  release(reservation: LeasedReservation): void {
    if (reservation.lines === undefined) this.#end(reservation, "released");
  }

  /**
   * Returns the statements of the next lease request. Empty while one is in flight, or if there is nothing to state.
   */
  request(now: number): readonly Want[] {
    if (this.#asked !== undefined) return [];
    const asked = new Map<Lease, readonly LeasedReservation[]>();
    const wants: Want[] = [];
    for (const scope of this.#scopes.values()) {
      if (!scope.isDue(now)) continue;
      const waiting = [...scope.waiting.keys()];
      const want = scope.state(
        now,
        waiting.some((each) => now - each.waitsSince >= anySourceMs),
      );
      asked.set(scope, waiting.slice(0, want.needsMilliCu.length));
      wants.push(want);
    }
    if (wants.length > 0) this.#asked = asked;
    return wants;
  }

  /** Handles the reply to the request in flight. Undefined if it is lost or was ignored: all of it is stated again. */
  receive(now: number, reply: readonly Granted[] | undefined): void {
    const asked = this.#asked ?? new Map<Lease, readonly LeasedReservation[]>();
    this.#asked = undefined;
    if (reply === undefined) for (const scope of asked.keys()) scope.stateAgain();
    for (const granted of reply ?? []) this.#scopes.get(granted.scope)?.receive(now, granted);
    for (const granted of reply ?? []) {
      const scope = this.#scopes.get(granted.scope);
      if (scope !== undefined) this.#serve(now, scope, granted, asked.get(scope) ?? []);
    }
  }

  /** Opens the waiting reservations that fit now, and refuses those that surely do not fit. */
  #serve(now: number, scope: Lease, granted: Granted, asked: readonly LeasedReservation[]): void {
    for (const reservation of scope.waiting.keys()) this.#admit(reservation);
    if (granted.reached === undefined) return;
    for (const reservation of asked) {
      const recall = scope.waiting.get(reservation);
      if (recall === undefined) continue;
      reservation.reached = granted.reached;
      if (recall === 0) scope.waiting.set(reservation, granted.recall);
      if (granted.answered >= (recall || granted.recall)) this.#refuse(now, scope, reservation);
    }
  }

  #refuse(now: number, scope: Lease, reservation: LeasedReservation): void {
    const { reached, costMilliCu } = reservation;
    if (reached !== undefined) scope.remember(now, costMilliCu, reached);
    this.#giveUp(reservation, "refused");
  }

  #giveUp(reservation: LeasedReservation, state: "refused" | "unavailable"): void {
    this.#end(reservation, reservation.isRecovering ? "lost" : state);
    this.ended.push(reservation);
  }

  /** Other replicas need the credit of these scopes. */
  recalled(recalls: Iterable<{ readonly scope: string; readonly recall: number }>): void {
    for (const { scope, recall } of recalls) this.#scopes.get(scope)?.recalled(recall);
  }

  /** Ends the reservations that have waited for too long. */
  sweep(now: number): void {
    for (const reservation of this.#reservations) {
      if (reservation.state !== "waiting") continue;
      const waitedMs = now - reservation.waitsSince;
      if (reservation.reached !== undefined && waitedMs >= refuseMs) {
        this.#giveUp(reservation, "refused");
      } else if (waitedMs >= giveUpMs) this.#giveUp(reservation, "unavailable");
    }
  }

  /** The ledger may have lost what it granted, so everything is stated again. */
  stateAgain(): void {
    for (const scope of this.#scopes.values()) scope.stateAgain();
  }

  /**
   * Starts again under a new registration, because the ledger has fenced the replica. Everything that is open must be
   * reserved again. `unposted`: settled reservations whose charges were not accepted; they come first.
   */
  restart(now: number, unposted: Iterable<LeasedReservation>): void {
    this.#asked = undefined;
    for (const scope of this.#scopes.values()) scope.restart();
    const open = [...this.#reservations];
    this.#reservations.clear();
    for (const reservation of [...unposted, ...open]) {
      reservation.isRecovering ||= reservation.state !== "waiting";
      reservation.state = "waiting";
      reservation.heldIn.length = 0;
      reservation.waitsSince = now;
      reservation.reached = undefined;
      this.#reservations.add(reservation);
      this.#admit(reservation);
    }
  }

  /**
   * Opens a waiting reservation if it fits. Its owner is notified, unless it was open before the replica was fenced.
   */
  #admit(reservation: LeasedReservation): void {
    this.#tryToOpen(reservation);
    if (reservation.state === "open" && !reservation.isRecovering) this.ended.push(reservation);
  }

  #tryToOpen(reservation: LeasedReservation): void {
    const { scopes, heldIn, isForced } = reservation;
    for (const scope of scopes) {
      if (!heldIn.includes(scope) && scope.tryToHold(reservation)) heldIn.push(scope);
    }
    if (heldIn.length < scopes.length) {
      if (!isForced) return;
      this.#free(reservation);
    }
    reservation.state = "open";
    if (reservation.lines !== undefined) this.#charge(reservation);
  }

  #charge(reservation: LeasedReservation): void {
    const { account, lines = [] } = reservation;
    const [workspace, key] = reservation.scopes;
    this.#free(reservation);
    reservation.state = "settling";
    this.#reservations.delete(reservation);
    const charges = lines.map(({ id, costMilliCu }): LeasedCharge => {
      const takenMilliCu = workspace?.take(costMilliCu) ?? [];
      const covered = takenMilliCu.reduce((total, each) => total + each, 0);
      const uncovered = costMilliCu - covered;
      return {
        id,
        keyId: account.keyId,
        workspaceId: account.workspaceId,
        time: this.#time,
        splitMilliCu: add(takenMilliCu, account.hasOverage ? [0, 0, uncovered] : [uncovered]),
        takenMilliCu,
        keyTakenMilliCu: key?.take(costMilliCu)[0] ?? 0,
      };
    });
    this.settled.push({ reservation, charges });
  }

  #end(reservation: LeasedReservation, state: LeasedState): void {
    if (!this.#reservations.delete(reservation)) return;
    this.#free(reservation);
    reservation.state = state;
  }

  #free(reservation: LeasedReservation): void {
    const { scopes, heldIn, costMilliCu } = reservation;
    for (const scope of heldIn) scope.reserved -= costMilliCu;
    for (const { waiting } of scopes) waiting.delete(reservation);
    heldIn.length = 0;
  }

  #scope(id: string, limits: Limits, now: number): Lease {
    let scope = this.#scopes.get(id);
    if (scope === undefined) {
      scope = new ScopeLease<LeasedReservation>(id, limits, this.#horizonMs, now);
      this.#scopes.set(id, scope);
    }
    return scope;
  }
}
