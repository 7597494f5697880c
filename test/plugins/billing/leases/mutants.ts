/** Wrong versions of the protocol. The model test must find each of them. */
import { MemoryLedger } from "../../../../plugins/billing/leases/memory-ledger.ts";
import type { LeaseReply, LeaseRequest, Want } from "../../../../plugins/billing/leases/ledger.ts";
import type { LedgerReplica } from "../../../../plugins/billing/leases/replica.ts";
import { correctParts, type Parts } from "./world.ts";
import { importChanged, type Change } from "./wrong-version.ts";

async function withLedger(...changes: readonly Change[]): Promise<Parts> {
  const module = "memory-ledger.ts";
  const changed = await importChanged<{ MemoryLedger: typeof MemoryLedger }>(module, changes);
  return { ...correctParts, ledger: (now) => new changed.MemoryLedger(now) };
}

async function withReplica(change: Change): Promise<Parts> {
  const module = "replica.ts";
  const changed = await importChanged<{ LedgerReplica: typeof LedgerReplica }>(module, [change]);
  return { ...correctParts, replica: (name) => new changed.LedgerReplica(name, "settled") };
}

/** A request of a replica that waits: what it needs in one scope of a key, and when it was last stated. */
interface Waiting {
  needsMilliCu: number;
  at: number;
}

/** Requests that wait count as use for each other: of two that do not fit together, both are refused. */
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
    waiting.set(replica, { needsMilliCu: needsMilliCu.reduce((sum, each) => sum + each, 0), at });
    if (isNew) return { ...want, needsMilliCu: [] };
    let others = 0;
    for (const [each, other] of waiting) if (each !== replica) others += other.needsMilliCu;
    const { kind, dayMilliCu, monthMilliCu } = limits;
    const left = { kind, dayMilliCu: dayMilliCu - others, monthMilliCu: monthMilliCu - others };
    return { ...want, limits: left };
  }
}

export const mutants: Readonly<Record<string, Parts>> = {
  // The fence frees the credit, and the replica may post nevertheless.
  "a fence without a check of the state": await withLedger({
    file: "memory-ledger.ts",
    from: 'if (row.state !== "live") return false;',
    to: 'if (row.state !== "live") return row.state === "fenced";',
  }),
  // A request adds the difference to what the ledger remembers, instead of stating the total.
  "differences instead of totals": await withLedger(
    {
      file: "authority.ts",
      from: "let { grantedMilliCu: granted, slackMilliCu",
      to: `let granted = (own?.granted ?? 0) +
        want.grantedMilliCu - (own?.stated ?? own?.granted ?? 0);
      let { slackMilliCu`,
    },
    {
      file: "authority.ts",
      from: "const lease = { granted,",
      to: "const lease = { stated: want.grantedMilliCu, granted,",
    },
  ),
  // The credit of a silent replica is free after a while, and the replica is not fenced.
  "expired holds are returned": await withLedger({
    file: "memory-ledger.ts",
    from: "row.state = state;",
    to: 'row.state = state === "fenced" ? "live" : state;',
  }),
  // A late lease request overwrites a newer one.
  "the lease number is not checked": await withLedger({
    file: "memory-ledger.ts",
    from: "row.leaseNo >= leaseNo ||",
    to: "",
  }),
  // A refusal does not wait until the others have given back what they do not use.
  "epochs are not awaited": await withLedger({
    file: "authority.ts",
    from: "Math.min(epoch, ...others.map((each) => each.epoch))",
    to: "epoch",
  }),
  // A need is refused because of an answer to an earlier epoch.
  "a later need does not increase the epoch": await withLedger({
    file: "authority.ts",
    from: "if (waits > 0 && want.hasNewNeeds) epoch++;",
    to: "if (waits > 0 && epoch === 0) epoch++;",
  }),
  // The credit that a replica returns for a need is granted to others as slack.
  "slack is granted while a need waits": await withLedger({
    file: "authority.ts",
    from: "view.others.some((each) => each.waits > 0) ||",
    to: "",
  }),
  "an answer keeps the slack": await withReplica({
    file: "scope-lease.ts",
    from: "this.#keepsSlack(now) && !this.#owesAnswer",
    to: "this.#keepsSlack(now)",
  }),
  "requests that wait refuse each other": {
    ...correctParts,
    ledger: (now) => new WaitingCountsAsUse(now),
  },
  "posted twice after a lost reply": await withReplica({
    file: "post-lane.ts",
    from: "if (this.#sent !== undefined) this.#again.unshift(this.#sent);",
    to: "for (const each of this.restart(0).unposted) this.add(each, 0);",
  }),
};
