/**
 * The ledger in memory. It is the executable specification of the functions in PostgreSQL: each method is one
 * transaction there, and each map is a table.
 */
import { periodOf } from "../metering/periods.ts";
import { dayWindow, monthWindow } from "../metering/windows.ts";
import type {
  Amounts,
  CreditLedger,
  FeedReply,
  Granted,
  LeasedCharge,
  LeaseReply,
  LeaseRequest,
  PostRequest,
  Registered,
  ReplicaMode,
  Standing,
  Want,
} from "./ledger.ts";
import { add, difference, sum, takeInOrder } from "./amounts.ts";
import {
  addTo,
  leaseOf,
  nothing,
  outstanding,
  type LeaseRow,
  type ReplicaRow,
  type ScopeRow,
} from "./ledger-rows.ts";
import { heldBy, leftIn, limitReached } from "./ledger-usage.ts";

/** A replica that has sent nothing for this time is fenced. */
export const silenceMs = 10_000;
/**
 * For this time after a need that did not fit, no replica is granted slack. Otherwise, busy replicas could take the
 * credit that others return for that need.
 */
export const unmetMs = 1_000;

export class MemoryLedger implements CreditLedger {
  readonly #now: () => number;
  /** Start of the ledger. For a while after it, no replica could have sent a message. */
  readonly #startedAt: number;
  readonly replicas = new Map<number, ReplicaRow>();
  readonly scopes = new Map<string, ScopeRow>();
  readonly charges: LeasedCharge[] = [];

  constructor(now: () => number) {
    this.#now = now;
    this.#startedAt = now();
  }

  register(name: string, mode: ReplicaMode = "settled"): Registered {
    const now = this.#now();
    const replica = this.replicas.size + 1;
    const times = { registeredAt: now, heardAt: now };
    const row: ReplicaRow = { name, mode, ...times, state: "live", posted: 0, leaseNo: 0 };
    this.replicas.set(replica, row);
    return { replica, ...this.#standing(row) };
  }

  feed(replica: number): FeedReply {
    const row = this.replicas.get(replica);
    if (row === undefined || !this.hear(row)) return { ...this.#standing(row), recalls: [] };
    const recalls: { scope: string; recall: number }[] = [];
    for (const [scope, { recall, leases }] of this.scopes) {
      const lease = leases.get(replica);
      if (lease !== undefined && outstanding(lease) > 0 && lease.recall < recall) {
        recalls.push({ scope, recall });
      }
    }
    return { ...this.#standing(row), recalls };
  }

  post({ replica, first, last, charges }: PostRequest): Standing {
    const row = this.replicas.get(replica);
    if (row === undefined || !this.isNextBatch(row, first) || !this.hear(row)) {
      return this.#standing(row);
    }
    row.posted = last;
    for (const charge of charges) this.#record(replica, charge);
    return this.#standing(row);
  }

  /**
   * The windows count from now on, by the ledger's clock. Until now the charge counted as granted, so it counts without
   * a gap, whatever the clock of the replica says.
   */
  #record(replica: number, charge: LeasedCharge): void {
    const now = this.#now();
    const costMilliCu = sum(charge.splitMilliCu);
    const key = this.#scope(charge.keyId);
    addTo(key.daySteps, Math.floor(now / dayWindow.stepMs), costMilliCu);
    addTo(key.monthSteps, Math.floor(now / monthWindow.stepMs), costMilliCu);
    if (charge.keyTakenMilliCu > 0) this.#spend(key, replica, [charge.keyTakenMilliCu]);
    const workspace = this.#scope(charge.workspaceId);
    const { start } = periodOf(Math.min(charge.time, now));
    workspace.draws.set(start, add(workspace.draws.get(start) ?? nothing, charge.splitMilliCu));
    if (sum(charge.takenMilliCu) > 0) this.#spend(workspace, replica, charge.takenMilliCu);
    this.charges.push(charge);
  }

  #spend(scope: ScopeRow, replica: number, taken: Amounts): void {
    const lease = leaseOf(scope, replica, taken.length);
    lease.spent = add(lease.spent, taken);
  }

  lease({ replica, leaseNo, wants }: LeaseRequest): LeaseReply {
    const row = this.replicas.get(replica);
    if (row === undefined || !this.isNewRequest(row, leaseNo) || !this.hear(row)) {
      return { ...this.#standing(row), granted: undefined };
    }
    row.leaseNo = leaseNo;
    const granted = wants.map((want) => this.#grant(replica, want));
    return { ...this.#standing(row), granted };
  }

  #grant(replica: number, want: Want): Granted {
    const scope = this.#scope(want.scope);
    const lease = leaseOf(scope, replica, want.grantedMilliCu.length);
    lease.granted = this.keptBy(lease, want);
    if (want.isNew) lease.spent = want.grantedMilliCu.map(() => 0);
    lease.slack = want.slackMilliCu;
    lease.recall = want.recall;
    // A backup may have been restored, so the replica may have seen a later recall.
    scope.recall = Math.max(scope.recall, want.recall);
    let left = leftIn(scope, want.limits, this.#now());

    // Credit of a later source is granted only when no replica holds unused credit of an earlier one.
    const others = this.#others(scope, replica);
    let otherSlack: Amounts = left.map(() => 0);
    for (const { slack } of others) otherSlack = add(otherSlack, slack);
    const firstSlack = want.anySource ? -1 : otherSlack.findIndex((amount) => amount > 0);
    const reach = firstSlack === -1 ? left.length : firstSlack + 1;
    const within = (amounts: Amounts): Amounts => amounts.slice(0, reach);

    let unmetMilliCu = 0;
    let leastUnmetMilliCu = Infinity;
    for (const need of want.needsMilliCu) {
      const taken = takeInOrder(within(left), need);
      if (sum(taken) === need) {
        lease.granted = add(lease.granted, taken);
        left = difference(left, taken);
      } else {
        unmetMilliCu ||= need;
        leastUnmetMilliCu = Math.min(leastUnmetMilliCu, need);
      }
    }
    const missingMilliCu = unmetMilliCu === 0 ? 0 : leastUnmetMilliCu - sum(left);
    const { heldMilliCu, slackMilliCu } = heldBy(others);
    // The need would not fit even if the others returned everything, so they are not asked.
    const isHopeless = missingMilliCu > heldMilliCu;
    // A holder of slack that has answered the newest recall was granted the slack later, so it is recalled once more.
    const hasNewSlack = others.some(
      ({ slack, recall }) => sum(slack) > 0 && recall === scope.recall,
    );
    if (unmetMilliCu > 0 && !isHopeless) scope.unmetAt = this.#now();
    if (unmetMilliCu > 0 && !isHopeless && (want.hasNewNeeds || hasNewSlack)) {
      // The caller has just stated what it keeps, so it has answered its own recall.
      if (sum(lease.slack) === 0 && lease.recall === scope.recall) lease.recall++;
      scope.recall++;
      scope.isTight = true;
    }
    if (unmetMilliCu === 0 && want.extraMilliCu > 0)
      this.#grantExtra(scope, lease, within(left), want);
    if (want.isNew && sum(lease.granted) === 0) scope.leases.delete(replica);
    return {
      scope: want.scope,
      grantedMilliCu: lease.granted,
      recall: scope.recall,
      answered: isHopeless
        ? scope.recall
        : missingMilliCu <= slackMilliCu
          ? 0
          : Math.min(scope.recall, ...others.map(({ recall }) => recall)),
      isTight: scope.isTight,
      reached:
        unmetMilliCu > 0 ? limitReached(scope, want.limits, unmetMilliCu, this.#now()) : undefined,
    };
  }

  /**
   * Grants slack from the first source that has credit left. No replica gets more than its share of half of what is
   * left, so that a replica that crashes withholds little from the others.
   */
  #grantExtra(scope: ScopeRow, lease: LeaseRow, left: Amounts, want: Want): void {
    const source = left.findIndex((amount) => amount > 0);
    let live = 0;
    for (const { state } of this.replicas.values()) if (state === "live") live++;
    const share = Math.floor((left[source] ?? 0) / (2 * live));
    const isCalm = this.#now() - scope.unmetAt >= unmetMs;
    if (share >= want.extraMilliCu && isCalm) scope.isTight = false;
    if (scope.isTight || share === 0) return;
    const extra = left.map((_, at) => (at === source ? Math.min(share, want.extraMilliCu) : 0));
    lease.granted = add(lease.granted, extra);
    lease.slack = add(lease.slack, extra);
  }

  fence(replica: number): readonly number[] {
    const now = this.#now();
    const caller = this.replicas.get(replica);
    const heardSince = Math.max(this.#startedAt, caller?.registeredAt ?? now);
    if (caller?.state !== "live" || now - heardSince < silenceMs) return [];
    const fenced: number[] = [];
    for (const [each, row] of this.replicas) {
      if (row.state !== "live" || now - row.heardAt <= silenceMs) continue;
      this.end(each, row, "fenced");
      fenced.push(each);
    }
    return fenced.toSorted((left, right) => left - right);
  }

  leave(replica: number): Standing {
    const row = this.replicas.get(replica);
    if (row !== undefined && this.hear(row)) this.end(replica, row, "gone");
    return this.#standing(row);
  }

  /** Frees the credit that a replica holds. It can no longer post charges that were made with this credit. */
  protected end(replica: number, row: ReplicaRow, state: "fenced" | "gone"): void {
    row.state = state;
    for (const { leases } of this.scopes.values()) leases.delete(replica);
  }

  /** Returns true if the replica may post, and records the time of its message. */
  protected hear(row: ReplicaRow): boolean {
    if (row.state !== "live") return false;
    row.heardAt = this.#now();
    return true;
  }

  protected isNextBatch(row: ReplicaRow, first: number): boolean {
    return row.posted === first - 1;
  }

  protected isNewRequest(row: ReplicaRow, leaseNo: number): boolean {
    return row.leaseNo < leaseNo;
  }

  /**
   * Returns the credit that the replica keeps. Its statement counts, because a reply to an earlier request may be
   * lost.
   */
  protected keptBy(_lease: LeaseRow, want: Want): Amounts {
    return want.grantedMilliCu;
  }

  /** Returns the leases of the other live replicas. */
  #others(scope: ScopeRow, replica: number): readonly LeaseRow[] {
    const others: LeaseRow[] = [];
    for (const [each, lease] of scope.leases) {
      if (each === replica || outstanding(lease) === 0) continue;
      if (this.replicas.get(each)?.state === "live") others.push(lease);
    }
    return others;
  }

  #scope(id: string): ScopeRow {
    let scope = this.scopes.get(id);
    if (scope === undefined) {
      scope = {
        recall: 0,
        isTight: false,
        unmetAt: 0,
        leases: new Map(),
        daySteps: new Map(),
        monthSteps: new Map(),
        draws: new Map(),
      };
      this.scopes.set(id, scope);
    }
    return scope;
  }

  #standing(row: ReplicaRow | undefined): Standing {
    const { state, posted, leaseNo } = row ?? { state: "unknown", posted: 0, leaseNo: 0 };
    return { state, posted, leaseNo, time: this.#now() };
  }
}
