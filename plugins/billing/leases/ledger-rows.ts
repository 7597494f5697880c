/** The rows of the ledger in memory, what a decision reads about a scope, and facts that depend on a single row. */
import { dayWindow, monthWindow, type WindowShape } from "../metering/windows.ts";
import type { ReplicaMode, ReplicaState, WorkspaceLimits } from "./ledger.ts";
import type { FixedMonth } from "./months.ts";

export interface ReplicaRow {
  readonly name: string;
  readonly mode: ReplicaMode;
  readonly registeredAt: number;
  state: ReplicaState;
  heardAt: number;
  posted: number;
  leaseNo: number;
}

/** The credit that one replica holds in one scope: totals since the replica started to count this scope. */
export interface LeaseRow {
  granted: number;
  /** The part of `granted` that its posted charges took. */
  spent: number;
  /** The part of `granted` that was neither charged nor reserved when the replica last stated it. */
  slack: number;
  /** The least need that the replica has stated and that waits for credit of others. 0 if none waits. */
  waits: number;
  /** The newest epoch that the replica has answered. */
  epoch: number;
}

export interface ScopeState {
  readonly epoch: number;
  /** The limits of the last request. Undefined for a key, and for a workspace before its first request. */
  readonly limits: WorkspaceLimits | undefined;
  /** The months of a workspace that had ended at the last request. */
  readonly fixed: readonly FixedMonth[];
}

/** The posted charges of a scope: those in the windows of a key, or those of a workspace by the start of the month. */
export interface Used {
  readonly dayMilliCu: number;
  readonly monthMilliCu: number;
  readonly months: ReadonlyMap<number, number>;
}

export interface ScopeRow extends ScopeState {
  /** Keys are the numbers of replicas. */
  readonly leases: Map<number, LeaseRow>;
  /** The windows of a key: milli-CU by step. */
  readonly daySteps: Map<number, number>;
  readonly monthSteps: Map<number, number>;
  /** The charges of a workspace: milli-CU by the start of the month. */
  readonly months: Map<number, number>;
}

/** Returns the credit that a lease holds. */
export function outstanding({ granted, spent }: Pick<LeaseRow, "granted" | "spent">): number {
  return Math.max(0, granted - spent);
}

export function leaseOf(scope: ScopeRow, replica: number): LeaseRow {
  let lease = scope.leases.get(replica);
  if (lease === undefined) {
    lease = { granted: 0, spent: 0, slack: 0, waits: 0, epoch: 0 };
    scope.leases.set(replica, lease);
  }
  return lease;
}

export function addTo(sums: Map<number, number>, step: number, milliCu: number): void {
  sums.set(step, (sums.get(step) ?? 0) + milliCu);
}

/** Returns the posted charges that count now. Steps that have left their window are deleted. */
export function usedOf({ daySteps, monthSteps, months }: ScopeRow, now: number): Used {
  const dayMilliCu = windowSum(daySteps, dayWindow, now);
  return { dayMilliCu, monthMilliCu: windowSum(monthSteps, monthWindow, now), months };
}

/** A step counts until it has left the window completely. */
function windowSum(
  steps: Map<number, number>,
  { stepMs, steps: length }: WindowShape,
  now: number,
): number {
  const oldest = Math.floor(now / stepMs) - length;
  let total = 0;
  for (const [step, milliCu] of steps) {
    if (step < oldest) steps.delete(step);
    else total += milliCu;
  }
  return total;
}
