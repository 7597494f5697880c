/** Wrong versions of the protocol. The model test must find each of them. */
import type { LeaseRow, ReplicaRow } from "../../../../plugins/billing/leases/ledger-rows.ts";
import { MemoryLedger } from "../../../../plugins/billing/leases/memory-ledger.ts";
import type { Amounts, Want } from "../../../../plugins/billing/leases/ledger.ts";
import { add, difference } from "../../../../plugins/billing/leases/amounts.ts";
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
  "posted twice after a lost reply": {
    ...correctParts,
    lane: () => new PostedAgainAfterLostReply(),
  },
};
