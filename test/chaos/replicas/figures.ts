/** The figures of a campaign, as docs/replicas.md shows them. */
import type { Audit } from "./audit.ts";
import {
  callsWithoutFault,
  countUnavailable,
  cutCalls,
  isAnswered,
  overshootOf,
  type Violations,
} from "../../checker/checker.ts";
import type { History } from "../../checker/history.ts";
import type { DoneFault } from "./run-faults.ts";
import type { FaultKind } from "./schedule.ts";

export interface Figures {
  readonly requests: number;
  readonly answered: number;
  readonly charges: number;
  readonly faults: Readonly<Record<string, number>>;
  /** Processes that were killed: replicas, PostgreSQL and Redis. */
  readonly kills: number;
  readonly overshootMilliCu: number;
  readonly lost: number;
  readonly doubled: number;
  readonly wrong: number;
  /** Requests that a credit limit refused, and the number of those for which there was credit. */
  readonly refused: number;
  readonly unjustified: number;
  /** Requests that were answered with 503: in all, and of the requests while no fault was in progress. */
  readonly unavailable: number;
  readonly withoutFault: { readonly requests: number; readonly unavailable: number };
  /** Charges whose answer did not arrive completely. */
  readonly cut: number;
  readonly repeated: number;
  readonly fenced: number;
  /** The largest amount that a killed replica held, and the longest time until such an amount was free. */
  readonly strandedMilliCu: number;
  readonly strandedSeconds: number;
  /** The longest time from a commit to the confirmation of all replicas, if all have confirmed. */
  readonly revocationMs: number;
  readonly revocations: number;
  /** The longest time from the repair to the next answer, by fault. Faults that overlapped with others are left out. */
  readonly serveAgainMs: Readonly<Record<string, number>>;
}

export function figuresOf(
  history: History,
  violations: Violations,
  audit: Audit,
  done: readonly DoneFault[],
): Figures {
  const stranded = strandings(audit, done);
  const calm = callsWithoutFault(history);
  const killing: readonly FaultKind[] = [
    "kill a replica",
    "set a clock wrong",
    "kill Redis",
    "kill PostgreSQL",
    "fail over",
  ];
  const confirmed = history.revocations.filter(
    ({ confirmedBy, notConfirmedBy }) => confirmedBy.length > 0 && notConfirmedBy.length === 0,
  );
  return {
    requests: history.calls.length,
    answered: history.calls.filter(isAnswered).length,
    charges: history.charges.length,
    faults: Object.fromEntries(
      [...Map.groupBy(done, ({ kind }) => kind)].map(([kind, all]) => [kind, all.length]),
    ),
    kills: done.filter(({ kind }) => killing.includes(kind)).length,
    overshootMilliCu: overshootOf(history),
    lost: violations.lost.length,
    doubled: violations.doubled.length,
    wrong: violations.wrong.length,
    refused: history.calls.filter(({ status, maxMilliCu }) => status === 429 && maxMilliCu > 0)
      .length,
    unjustified: violations.unjustified.length,
    unavailable: countUnavailable(history.calls),
    withoutFault: { requests: calm.length, unavailable: countUnavailable(calm) },
    cut: cutCalls(history),
    repeated: violations.repeated.length,
    fenced: audit.states.filter(({ state }) => state === "fenced").length,
    strandedMilliCu: most(stranded.map(({ milliCu }) => milliCu)),
    strandedSeconds: Math.round(most(stranded.map(({ ms }) => ms)) / 100) / 10,
    revocations: confirmed.length,
    revocationMs: Math.round(
      most(confirmed.map(({ committedAt, confirmedAt }) => confirmedAt - committedAt)),
    ),
    serveAgainMs: serveAgain(history, done),
  };
}

/** Returns the time at which the credit of a killed replica was free. Undefined if it was not killed. */
function endOf({ kind, replica, begunAt }: DoneFault, { states }: Audit): number | undefined {
  if (kind !== "kill a replica" && kind !== "set a clock wrong") return undefined;
  const end = states.find((each) => each.replica === replica && each.at >= begunAt);
  return end?.at ?? Infinity;
}

function strandings(
  audit: Audit,
  done: readonly DoneFault[],
): { readonly milliCu: number; readonly ms: number }[] {
  return done.flatMap((fault) => {
    const end = endOf(fault, audit);
    if (end === undefined) return [];
    const held = new Map<string, number>();
    for (const { at, scope, replica, heldMilliCu } of audit.holdings) {
      if (replica !== fault.replica || at > fault.begunAt || !scope.startsWith("ws_")) continue;
      held.set(scope, heldMilliCu);
    }
    const milliCu = held.values().reduce((sum, each) => sum + each, 0);
    return milliCu === 0 ? [] : [{ milliCu, ms: end - fault.begunAt }];
  });
}

function serveAgain(history: History, done: readonly DoneFault[]): Record<string, number> {
  const longest: Record<string, number> = {};
  const answered = history.calls.filter((call) => isAnswered(call) && call.milliCu > 0);
  for (const fault of done) {
    const { kind, slot, repairedAt } = fault;
    const place = slot === undefined ? "replica-" : `replica-${slot}-`;
    const first = answered.filter(
      ({ replica, end }) => end >= repairedAt && replica.startsWith(place),
    );
    const end = first.reduce((least, call) => Math.min(least, call.end), Infinity);
    const meets = done.some((other) => {
      if (other === fault || other.begunAt > end || other.repairedAt < fault.begunAt) return false;
      return other.slot === undefined || slot === undefined || other.slot === slot;
    });
    if (meets || end === Infinity) continue;
    longest[kind] = Math.max(longest[kind] ?? 0, Math.round(end - repairedAt));
  }
  return longest;
}

function most(values: readonly number[]): number {
  return values.reduce((max, each) => Math.max(max, each), 0);
}
