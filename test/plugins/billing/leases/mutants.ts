/** Wrong versions of the protocol. The model test must find each of them. */
import type { LeaseRow, ReplicaRow } from "../../../../plugins/billing/leases/ledger-rows.ts";
import { MemoryLedger } from "../../../../plugins/billing/leases/memory-ledger.ts";
import type {
  Amounts,
  LeaseReply,
  LeaseRequest,
  Want,
} from "../../../../plugins/billing/leases/ledger.ts";
import { add, difference, sum } from "../../../../plugins/billing/leases/amounts.ts";
import { PostLane } from "../../../../plugins/billing/leases/post-lane.ts";
import { correctParts, type Parts } from "./world.ts";

/** The fence frees the credit, and the replica may post nevertheless. */
class FenceWithoutCheck extends MemoryLedger {
  protected override hear(row: ReplicaRow): boolean {
    const isHeard = super.hear(row);
    return isHeard || row.state === "fenced";
  }
}

/** A request adds the difference to what the ledger remembers, instead of stating the total. */
class DifferencesInsteadOfTotals extends MemoryLedger {
  readonly #stated = new WeakMap<LeaseRow, Amounts>();

  protected override keptBy(lease: LeaseRow, want: Want): Amounts {
    const before = this.#stated.get(lease) ?? want.grantedMilliCu.map(() => 0);
    this.#stated.set(lease, want.grantedMilliCu);
    return add(lease.granted, difference(want.grantedMilliCu, before));
  }
}

/** The credit of a silent replica is free after a while, and the replica is not fenced. */
class ExpiredHoldsReturned extends MemoryLedger {
  protected override end(replica: number, row: ReplicaRow, state: "fenced" | "gone"): void {
    super.end(replica, row, state);
    if (state === "fenced") row.state = "live";
  }
}

/** A late lease request overwrites a newer one. */
class LeaseNumberNotChecked extends MemoryLedger {
  protected override isNewRequest(): boolean {
    return true;
  }
}

/** A batch whose reply is missing is posted again under new numbers. */
class PostedAgainAfterLostReply extends PostLane {
  override lost(): void {
    const { unposted } = this.restart(0);
    for (const settlement of unposted) this.add(settlement, 0);
  }
}

/** A refusal does not wait until the others have given back what they do not use. */
class RecallsNotAwaited extends MemoryLedger {
  override lease(request: LeaseRequest): LeaseReply {
    const reply = super.lease(request);
    const granted = reply.granted?.map((each) => ({ ...each, answered: each.recall }));
    return { ...reply, granted };
  }
}

/** A request of a replica that waits: what it needs in one scope of a key, and when it was last stated. */
interface Waiting {
  needsMilliCu: number;
  at: number;
}

/**
 * Requests that wait count as use for each other. Of two that do not fit together, both are refused, and not only one.
 * A need is granted when it is stated for the second time, so that several can wait.
 */
class WaitingCountsAsUse extends MemoryLedger {
  readonly #clock: () => number;
  readonly #waiting = new Map<string, Map<number, Waiting>>();

  constructor(now: () => number) {
    super(now);
    this.#clock = now;
  }

  override lease(request: LeaseRequest): LeaseReply {
    const wants = request.wants.map((want) => this.#besideOthers(request.replica, want));
    return super.lease({ ...request, wants });
  }

  #besideOthers(replica: number, want: Want): Want {
    const { scope, limits, needsMilliCu } = want;
    if (limits.kind !== "key" || needsMilliCu.length === 0) return want;
    const waiting = this.#waiting.get(scope) ?? new Map<number, Waiting>();
    this.#waiting.set(scope, waiting);
    const at = this.#clock();
    for (const [each, other] of waiting) if (at - other.at > 100) waiting.delete(each);
    const isNew = !waiting.has(replica);
    waiting.set(replica, { needsMilliCu: sum(needsMilliCu), at });
    if (isNew) return { ...want, needsMilliCu: [] };
    let others = 0;
    for (const [each, other] of waiting) if (each !== replica) others += other.needsMilliCu;
    const { kind, dayMilliCu, monthMilliCu } = limits;
    const left = { kind, dayMilliCu: dayMilliCu - others, monthMilliCu: monthMilliCu - others };
    return { ...want, limits: left };
  }
}

export const mutants: Readonly<Record<string, Parts>> = {
  "a fence without a check of the state": {
    ...correctParts,
    ledger: (now) => new FenceWithoutCheck(now),
  },
  "differences instead of totals": {
    ...correctParts,
    ledger: (now) => new DifferencesInsteadOfTotals(now),
  },
  "expired holds are returned": { ...correctParts, ledger: (now) => new ExpiredHoldsReturned(now) },
  "the lease number is not checked": {
    ...correctParts,
    ledger: (now) => new LeaseNumberNotChecked(now),
  },
  "recalls are not awaited": { ...correctParts, ledger: (now) => new RecallsNotAwaited(now) },
  "requests that wait refuse each other": {
    ...correctParts,
    ledger: (now) => new WaitingCountsAsUse(now),
  },
  "posted twice after a lost reply": {
    ...correctParts,
    lane: () => new PostedAgainAfterLostReply(),
  },
};
