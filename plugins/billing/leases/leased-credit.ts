/**
 * Reserves and charges credit inside what the ledger has leased to this replica. It has no timers and sends nothing:
 * its owner passes the time and the replies, and sends the statements that it returns.
 */
import { LeaseSet } from "./lease-set.ts";
import type { Account, Lease, LeasedReservation, LeasedState } from "./leased-reservation.ts";
import type { ChargeDetails, Granted, LeasedCharge, Want } from "./ledger.ts";
import { periodOf } from "./months.ts";

/**
 * After this waiting time, a reservation ends, because the ledger or another replica has not answered. It is not
 * refused, because another replica may hold unused credit. An answer to an epoch takes up to 430 ms if every message
 * takes 10 ms, because the others poll every 250 ms and may have a request in flight.
 */
const giveUpMs = 2_000;
const maxWants = 500;
const noCharges: readonly LeasedCharge[] = [];

export class LeasedCredit {
  readonly #scopes = new LeaseSet();
  /** Reservations that are waiting or open. A set would need a hash of each, which costs more than `place`. */
  readonly #reservations: LeasedReservation[] = [];
  /** The scopes of the lease request in flight, with the reservations that it states. */
  #asked: ReadonlyMap<Lease, readonly LeasedReservation[]> | undefined;
  /** Estimated time of the ledger in milliseconds since 1970. It never goes back. */
  #time = 0;
  #monthEnd = 0;
  readonly #onSettled: (settled: LeasedReservation) => void;

  /** `onSettled`: called with reservations whose charges must be posted. */
  constructor(onSettled: (settled: LeasedReservation) => void) {
    this.#onSettled = onSettled;
  }

  get reservations(): number {
    return this.#reservations.length;
  }

  get scopes(): Iterable<Lease> {
    return this.#scopes.all();
  }

  slackOf(scope: string): number {
    return this.#scopes.get(scope)?.slackMilliCu ?? 0;
  }

  /** The time of a charge is never before that of a grant that it uses, so it is drawn in the month of the grant. */
  moveTo(time: number): void {
    if (time <= this.#time) return;
    this.#time = time;
    if (time < this.#monthEnd) return;
    this.#monthEnd = periodOf(time).end;
    this.#scopes.touchAll((scope) => scope.startMonth());
  }

  /** Lets the time go back, because the ledger's clock ran ahead and has been corrected. */
  moveBack(): void {
    this.#time = 0;
    this.#monthEnd = 0;
  }

  /** Reserves in all scopes or in none. The result is open, waiting or refused. */
  reserve(now: number, account: Account, costMilliCu: number, isForced = false): LeasedReservation {
    const scopes = this.#scopes.use(now, account, costMilliCu);
    const reservation: LeasedReservation = {
      account,
      scopes,
      costMilliCu,
      isForced,
      state: "waiting",
      stream: 0,
      isInScopes: false,
      waitsSince: now,
      place: 0,
      isRecovering: false,
      lines: undefined,
      charges: noCharges,
      reached: undefined,
      onChange: undefined,
    };
    this.#add(reservation);
    this.#tryToOpen(reservation);
    if (reservation.state !== "waiting") return reservation;
    for (const scope of scopes) reservation.reached ??= scope.refusal(now, this.#time, costMilliCu);
    if (reservation.reached !== undefined) this.#end(reservation, "refused");
    return reservation;
  }

  /** A cost above the reservation counts at once, covered or not. `more`: reservations that also pay for the lines. */
  settle(
    reservation: LeasedReservation,
    lines: readonly ChargeDetails[],
    more: readonly LeasedReservation[] = [],
  ): void {
    if (reservation.lines !== undefined || !hasCredit(reservation)) return;
    for (const other of more) this.#moveCredit(other, reservation);
    if (lines.length === 0) return this.release(reservation);
    reservation.lines = lines;
    if (reservation.state === "open") this.#charge(reservation);
  }

  release(reservation: LeasedReservation): void {
    if (reservation.lines === undefined) this.#end(reservation, "released");
  }

  #moveCredit(from: LeasedReservation, to: LeasedReservation): void {
    if (from.lines !== undefined || !hasCredit(from)) return;
    this.#end(from, "released");
    if (to.state === "waiting") this.#free(to);
    if (to.isInScopes) for (const scope of to.scopes) scope.reserved += from.costMilliCu;
    to.costMilliCu += from.costMilliCu;
    if (to.state === "waiting") this.#tryToOpen(to);
  }

  posted(reservation: LeasedReservation): void {
    reservation.state = "posted";
    for (const scope of reservation.scopes) scope.unposted--;
    reservation.onChange?.();
  }

  /** Called when the charges of a reservation will never be posted, because they were not sent in time. */
  takeBack(reservation: LeasedReservation): void {
    const [workspace, key] = reservation.scopes;
    for (const { takenMilliCu, keyTakenMilliCu } of reservation.charges) {
      workspace?.giveBack(takenMilliCu);
      key?.giveBack(keyTakenMilliCu);
    }
    for (const scope of reservation.scopes) {
      scope.unposted--;
      this.#scopes.touch(scope);
    }
    reservation.state = "lost";
    reservation.onChange?.();
  }

  /** Empty while one is in flight, or if there is nothing to report. `due`: by default, all changed scopes. */
  request(now: number, due?: Iterable<Lease>): readonly Want[] {
    if (this.#asked !== undefined) return [];
    const asked = new Map<Lease, readonly LeasedReservation[]>();
    const wants: Want[] = [];
    for (const scope of due ?? this.#scopes.takeDue(now, maxWants)) {
      const waiting = [...scope.waiting.keys()];
      const want = scope.state(now);
      asked.set(scope, waiting.slice(0, want.needsMilliCu.length));
      wants.push(want);
    }
    if (wants.length > 0) this.#asked = asked;
    return wants;
  }

  /** `reply` is undefined if it was lost or the request was ignored; the whole request is then stated again. */
  receive(now: number, reply: readonly Granted[] | undefined): void {
    const asked = this.#asked ?? new Map<Lease, readonly LeasedReservation[]>();
    this.#asked = undefined;
    for (const scope of asked.keys()) {
      this.#scopes.touch(scope);
      if (reply === undefined) scope.stateAgain();
    }
    const served: (readonly [Lease, Granted])[] = [];
    for (const granted of reply ?? []) {
      const scope = this.#scopes.get(granted.scope);
      if (scope === undefined) continue;
      scope.receive(now, granted);
      served.push([scope, granted]);
    }
    // If a workspace and its key both refuse, the workspace is reported, because it takes longer to clear.
    for (const isWorkspace of [true, false]) {
      for (const [scope, granted] of served) {
        if (scope.isWorkspace !== isWorkspace) continue;
        this.#serve(now, scope, granted, asked.get(scope) ?? []);
      }
    }
  }

  #serve(now: number, scope: Lease, granted: Granted, asked: readonly LeasedReservation[]): void {
    for (const reservation of scope.waiting.keys()) this.#admit(reservation);
    if (granted.reached === undefined) return;
    for (const reservation of asked) {
      const epoch = scope.waiting.get(reservation);
      if (epoch === undefined) continue;
      if (epoch === 0) scope.waiting.set(reservation, granted.epoch);
      if (granted.answered < (epoch || granted.epoch)) continue;
      // The ledger does not know the credit that was freed here after the request was sent. With this credit the
      // reservation may fit, so the ledger is asked again.
      if (scope.mayFit(reservation.costMilliCu, granted.reached)) continue;
      reservation.reached = granted.reached;
      scope.remember(now, reservation.costMilliCu, granted.reached);
      this.#giveUp(reservation, "refused");
    }
  }

  #giveUp(reservation: LeasedReservation, state: "refused" | "unavailable"): void {
    this.#end(reservation, reservation.isRecovering ? "lost" : state);
    reservation.onChange?.();
  }

  /** Called when other replicas need the credit of these scopes. */
  sawEpochs(epochs: Iterable<{ readonly scope: string; readonly epoch: number }>): void {
    for (const { scope: id, epoch } of epochs) {
      const scope = this.#scopes.get(id);
      if (scope === undefined) continue;
      scope.sawEpoch(epoch);
      this.#scopes.touch(scope);
    }
  }

  sweep(now: number): void {
    this.#scopes.sweep(now, (scope) => this.#asked?.has(scope) === true);
    const late = this.#reservations.filter(
      ({ state, waitsSince }) => state === "waiting" && now - waitsSince >= giveUpMs,
    );
    for (const reservation of late) this.#giveUp(reservation, "unavailable");
  }

  /** Called when the ledger may have lost its grants. All scopes are stated again. */
  stateAgain(): void {
    this.#scopes.touchAll((scope) => scope.stateAgain());
  }

  /**
   * Starts again under a new registration, because the ledger has fenced the replica. Everything that is open must be
   * reserved again. `unposted`: settled reservations whose charges were not accepted; they are reserved first.
   */
  restart(now: number, unposted: Iterable<LeasedReservation>): void {
    this.#asked = undefined;
    this.#scopes.touchAll((scope) => scope.restart());
    const open = this.#reservations.toSorted((a, b) => a.waitsSince - b.waitsSince);
    this.#reservations.length = 0;
    for (const reservation of [...unposted, ...open]) {
      reservation.isRecovering ||= reservation.state !== "waiting";
      reservation.state = "waiting";
      reservation.isInScopes = false;
      reservation.waitsSince = now;
      this.#add(reservation);
      this.#admit(reservation);
    }
  }

  /** Notifies the owner, unless the reservation was open before the replica was fenced. */
  #admit(reservation: LeasedReservation): void {
    this.#tryToOpen(reservation);
    if (reservation.state === "open" && !reservation.isRecovering) reservation.onChange?.();
  }

  #tryToOpen(reservation: LeasedReservation): void {
    let isHeld = true;
    for (const scope of reservation.scopes) {
      if (reservation.isInScopes && !scope.waiting.has(reservation)) continue;
      if (!scope.tryToHold(reservation)) isHeld = false;
    }
    reservation.isInScopes = true;
    if (!isHeld) {
      if (!reservation.isForced) return;
      this.#free(reservation);
    }
    reservation.state = "open";
    if (reservation.lines !== undefined) this.#charge(reservation);
  }

  #charge(reservation: LeasedReservation): void {
    const { account, lines = [] } = reservation;
    const [workspace, key] = reservation.scopes;
    this.#remove(reservation, "settling");
    for (const scope of reservation.scopes) scope.unposted++;
    reservation.charges = lines.map((details): LeasedCharge => {
      const { costMilliCu } = details.line;
      return {
        keyId: account.keyId,
        workspaceId: account.workspaceId,
        time: this.#time,
        costMilliCu,
        takenMilliCu: workspace?.take(costMilliCu) ?? 0,
        keyTakenMilliCu: key?.take(costMilliCu) ?? 0,
        details,
      };
    });
    this.#onSettled(reservation);
  }

  #end(reservation: LeasedReservation, state: LeasedState): void {
    if (hasCredit(reservation)) this.#remove(reservation, state);
  }

  #add(reservation: LeasedReservation): void {
    reservation.place = this.#reservations.length;
    this.#reservations.push(reservation);
  }

  #remove(reservation: LeasedReservation, state: LeasedState): void {
    const last = this.#reservations.pop();
    if (last !== undefined && last !== reservation) {
      last.place = reservation.place;
      this.#reservations[last.place] = last;
    }
    this.#free(reservation);
    reservation.state = state;
  }

  #free(reservation: LeasedReservation): void {
    for (const scope of reservation.scopes) {
      const isWaiting = scope.waiting.size > 0 && scope.waiting.delete(reservation);
      if (reservation.isInScopes && !isWaiting) scope.reserved -= reservation.costMilliCu;
      this.#scopes.touch(scope);
    }
    reservation.isInScopes = false;
  }
}

function hasCredit({ state }: LeasedReservation): boolean {
  return state === "waiting" || state === "open";
}
