/** The rows of the ledger in memory, what a decision reads about a scope, and facts that depend on a single row. */
import { dayWindow, monthWindow, type WindowShape } from "../metering/windows.ts";
import { difference, sum } from "./amounts.ts";
import type { Amounts, ReplicaMode, ReplicaState } from "./ledger.ts";

export interface ReplicaRow {
  readonly name: string;
  readonly mode: ReplicaMode;
  readonly registeredAt: number;
  state: ReplicaState;
  heardAt: number;
  posted: number;
  leaseNo: number;
}

/** The credit that one replica holds in one scope: totals since the replica started to count this scope, by source. */
export interface LeaseRow {
  granted: Amounts;
  /** The part of `granted` that its posted charges took. */
  spent: Amounts;
  /** The part of `granted` that was neither charged nor reserved when the replica last stated it. */
  slack: Amounts;
  /** The newest recall that the replica has answered. */
  recall: number;
}

export interface ScopeState {
  readonly recall: number;
  /** True if no replica is granted more than its stated needs. */
  readonly isTight: boolean;
  /** Time of the last need that did not fit. */
  readonly unmetAt: number;
}

/** The posted charges of a scope: those in the windows of a key, or the draws of a workspace by the start of the month. */
export interface Used {
  readonly dayMilliCu: number;
  readonly monthMilliCu: number;
  readonly draws: ReadonlyMap<number, Amounts>;
}

export interface ScopeRow extends ScopeState {
  /** Keys are the numbers of replicas. */
  readonly leases: Map<number, LeaseRow>;
  /** The windows of a key: milli-CU by step. */
  readonly daySteps: Map<number, number>;
  readonly monthSteps: Map<number, number>;
  /** The draws of a workspace: amounts by the start of the month. */
  readonly draws: Map<number, Amounts>;
}

/** Amounts of a scope with three sources. */
export const nothing: Amounts = [0, 0, 0];

export function outstandingBySource({
  granted,
  spent,
}: Pick<LeaseRow, "granted" | "spent">): Amounts {
  return difference(granted, spent).map((amount) => Math.max(0, amount));
}

export function outstanding(lease: LeaseRow): number {
  return sum(outstandingBySource(lease));
}

export function leaseOf(scope: ScopeRow, replica: number, sources: number): LeaseRow {
  let lease = scope.leases.get(replica);
  if (lease === undefined) {
    const none = nothing.slice(0, sources);
    lease = { granted: none, spent: none, slack: none, recall: 0 };
    scope.leases.set(replica, lease);
  }
  return lease;
}

export function addTo(steps: Map<number, number>, step: number, milliCu: number): void {
  steps.set(step, (steps.get(step) ?? 0) + milliCu);
}

/** Returns the posted charges that count now. Steps that have left their window are deleted. */
export function usedOf({ daySteps, monthSteps, draws }: ScopeRow, now: number): Used {
  const dayMilliCu = windowSum(daySteps, dayWindow, now);
  return { dayMilliCu, monthMilliCu: windowSum(monthSteps, monthWindow, now), draws };
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
