/** The ledger in memory, for a gateway that is alone and for tests. Each map is a table of PostgresLedger. */
import { periodOf } from "./months.ts";
import { dayWindow, monthWindow, RollingWindow } from "../metering/windows.ts";
import type {
  CreditLedger,
  FeedReply,
  Granted,
  LeasedCharge,
  LeaseReply,
  LeaseRequest,
  PostRequest,
  Registered,
  ReplicaMode,
  ReplicaState,
  ReplicaStatus,
  Want,
} from "./ledger.ts";
import {
  grant,
  limitReached,
  outstanding,
  silenceMs,
  type LeaseRow,
  type ScopeState,
  type Used,
} from "./authority.ts";

interface ReplicaRow {
  readonly name: string;
  readonly mode: ReplicaMode;
  readonly registeredAt: number;
  state: ReplicaState;
  lastMessageAt: number;
  posted: number;
  leaseNo: number;
}

export interface ScopeRow extends ScopeState {
  /** Keys are the numbers of replicas. */
  readonly leases: Map<number, LeaseRow>;
  readonly day: RollingWindow;
  readonly month: RollingWindow;
  /** The charges of a workspace: milli-CU by the start of the month. */
  readonly months: Map<number, number>;
}

/** Number of rows that one sweep looks at. This takes about 0.1 ms. */
const rowsPerSweep = 1_000;

export class MemoryLedger implements CreditLedger {
  readonly #now: () => number;
  readonly #isAlone: boolean;
  /** Start of the ledger. For a while after it, no replica could have sent a message. */
  readonly #startedAt: number;
  readonly replicas = new Map<number, ReplicaRow>();
  readonly scopes = new Map<string, ScopeRow>();
  #sweeping: MapIterator<[string, ScopeRow]> = this.scopes.entries();

  /**
   * `isAlone`: true if no second replica will share the credit with the first one, which has the ledger's clock. A
   * charge then counts from its own time on.
   */
  constructor(now: () => number, isAlone = false) {
    this.#now = now;
    this.#isAlone = isAlone;
    this.#startedAt = now();
  }

  register(name: string, mode: ReplicaMode = "settled"): Registered {
    const now = this.#now();
    const replica = this.replicas.size + 1;
    const times = { registeredAt: now, lastMessageAt: now };
    const row: ReplicaRow = { name, mode, ...times, state: "live", posted: 0, leaseNo: 0 };
    this.replicas.set(replica, row);
    return { replica, ...this.#statusOf(row) };
  }

  feed(replica: number): FeedReply {
    const row = this.replicas.get(replica);
    if (row === undefined || !this.#touch(row)) return { ...this.#statusOf(row), epochs: [] };
    const epochs: { scope: string; epoch: number }[] = [];
    for (const [scope, { epoch, leases }] of this.scopes) {
      const lease = leases.get(replica);
      if (lease !== undefined && outstanding(lease) > 0 && lease.epoch < epoch) {
        epochs.push({ scope, epoch });
      }
    }
    return { ...this.#statusOf(row), epochs };
  }

  post({ replica, first, last, charges }: PostRequest): ReplicaStatus {
    const row = this.replicas.get(replica);
    if (row === undefined || row.posted !== first - 1 || !this.#touch(row)) {
      return this.#statusOf(row);
    }
    row.posted = last;
    const now = this.#now();
    const { start } = periodOf(now);
    for (const charge of charges) {
      const isOfMonth = start <= charge.time && charge.time <= now;
      const month = isOfMonth ? start : periodOf(Math.min(charge.time, now)).start;
      this.#record(replica, charge, this.#isAlone ? charge.time : now, month);
    }
    return this.#statusOf(row);
  }

  /**
   * The windows count from now on, by the ledger's clock. Until now the charge counted as granted, so it counts without
   * a gap, whatever the clock of the replica says.
   */
  #record(replica: number, charge: LeasedCharge, now: number, month: number): void {
    const { costMilliCu } = charge;
    const key = this.scope(charge.keyId);
    key.day.add(now, costMilliCu);
    key.month.add(now, costMilliCu);
    if (charge.keyTakenMilliCu > 0) leaseOf(key, replica).spent += charge.keyTakenMilliCu;
    const workspace = this.scope(charge.workspaceId);
    addTo(workspace.months, month, costMilliCu);
    if (charge.takenMilliCu > 0) leaseOf(workspace, replica).spent += charge.takenMilliCu;
  }

  lease({ replica, leaseNo, wants }: LeaseRequest): LeaseReply {
    const row = this.replicas.get(replica);
    if (row === undefined || row.leaseNo >= leaseNo || !this.#touch(row)) {
      return { ...this.#statusOf(row), granted: undefined };
    }
    row.leaseNo = leaseNo;
    const granted = wants.map((want) => this.#grant(replica, want));
    return { ...this.#statusOf(row), granted };
  }

  #grant(replica: number, want: Want): Granted {
    const row = this.scope(want.scope);
    const own = row.leases.get(replica);
    const others = [...row.leases].filter(([each]) => each !== replica).map(([, each]) => each);
    let live = 0;
    for (const { state } of this.replicas.values()) if (state === "live") live++;
    const view = {
      scope: row,
      own,
      others,
      used: usedOf(row, this.#now()),
      live,
      isOnlyHolder: this.#isAlone && live === 1,
      now: this.#now(),
    };
    const decision = grant(view, want);
    const { scope, lease, granted, unmetMilliCu } = decision;
    Object.assign(row, scope);
    if (lease === undefined) row.leases.delete(replica);
    else row.leases.set(replica, lease);
    const windowOf = (window: "day" | "month"): RollingWindow => row[window];
    const reached =
      unmetMilliCu > 0 ? limitReached(decision, view, want.limits, windowOf) : undefined;
    return { ...granted, reached };
  }

  fence(replica: number): readonly number[] {
    const now = this.#now();
    const caller = this.replicas.get(replica);
    const listeningSince = Math.max(this.#startedAt, caller?.registeredAt ?? now);
    if (caller?.state !== "live" || now - listeningSince < silenceMs) return [];
    const fenced: number[] = [];
    for (const [each, row] of this.replicas) {
      if (row.state !== "live" || now - row.lastMessageAt <= silenceMs) continue;
      this.#end(each, row, "fenced");
      fenced.push(each);
    }
    return fenced.toSorted((left, right) => left - right);
  }

  leave(replica: number): ReplicaStatus {
    const row = this.replicas.get(replica);
    if (row !== undefined && this.#touch(row)) this.#end(replica, row, "gone");
    return this.#statusOf(row);
  }

  /** The replica can no longer post charges that were made with its credit. */
  #end(replica: number, row: ReplicaRow, state: "fenced" | "gone"): void {
    row.state = state;
    for (const { leases } of this.scopes.values()) leases.delete(replica);
  }

  /** Deletes rows that are like new ones. Each call looks at the next rows, and starts over at the end. */
  sweep(): void {
    const now = this.#now();
    for (let n = 0; n < rowsPerSweep; n++) {
      const { value, done } = this.#sweeping.next();
      if (done === true) {
        this.#sweeping = this.scopes.entries();
        return;
      }
      const [id, { day, month, months, leases }] = value;
      const isUsed = months.size > 0 || leases.size > 0;
      if (!isUsed && day.isEmpty(now) && month.isEmpty(now)) this.scopes.delete(id);
    }
  }

  /** Returns true if the replica may post, and records the time of its message. */
  #touch(row: ReplicaRow): boolean {
    if (row.state !== "live") return false;
    row.lastMessageAt = this.#now();
    return true;
  }

  scope(id: string): ScopeRow {
    let scope = this.scopes.get(id);
    if (scope === undefined) {
      scope = {
        epoch: 0,
        limits: undefined,
        fixed: [],
        leases: new Map(),
        day: new RollingWindow(dayWindow),
        month: new RollingWindow(monthWindow),
        months: new Map(),
      };
      this.scopes.set(id, scope);
    }
    return scope;
  }

  status(replica: number): ReplicaStatus {
    return this.#statusOf(this.replicas.get(replica));
  }

  #statusOf(row: ReplicaRow | undefined): ReplicaStatus {
    const { state, posted, leaseNo } = row ?? { state: "unknown", posted: 0, leaseNo: 0 };
    return { state, posted, leaseNo, time: this.#now() };
  }
}

function leaseOf(scope: ScopeRow, replica: number): LeaseRow {
  let lease = scope.leases.get(replica);
  if (lease === undefined) {
    lease = { granted: 0, spent: 0, slack: 0, waits: 0, epoch: 0 };
    scope.leases.set(replica, lease);
  }
  return lease;
}

function addTo(sums: Map<number, number>, step: number, milliCu: number): void {
  sums.set(step, (sums.get(step) ?? 0) + milliCu);
}

export function usedOf({ day, month, months }: ScopeRow, now: number): Used {
  return { dayMilliCu: day.sum(now), monthMilliCu: month.sum(now), months };
}
