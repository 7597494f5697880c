/** Records every charge, reservation and limit of a world, and checks the invariants of the lease protocol. */
import assert from "node:assert/strict";
import type {
  LeasedCharge,
  Limits,
  WorkspaceLimits,
} from "../../../../plugins/billing/leases/ledger.ts";
import type {
  Account,
  LeasedReservation,
} from "../../../../plugins/billing/leases/leased-reservation.ts";
import { outstanding } from "../../../../plugins/billing/leases/authority.ts";
import { currentMonth, monthLimit } from "../../../../plugins/billing/leases/months.ts";
import {
  usedOf,
  type MemoryLedger,
  type ScopeRow,
} from "../../../../plugins/billing/leases/memory-ledger.ts";
import type { LedgerReplica } from "../../../../plugins/billing/leases/replica.ts";

/** One process. Its place in the world is taken by another one after a crash. */
export interface Process {
  readonly replica: LedgerReplica;
  readonly name: string;
  /** A paused process neither sends nor receives. */
  isPaused: boolean;
  readonly open: Opened[];
}

export interface Opened {
  readonly reservation: LeasedReservation;
  readonly process: Process;
  ids: readonly string[];
  /** True if the credit that may have been in use exceeded a limit at some instant while it waited. */
  couldBeRefused: boolean;
}

export const keyIds = ["key_a", "key_b", "key_c"] as const;
export const workspaceOf = { key_a: "ws_1", key_b: "ws_1", key_c: "ws_2" } as const;
export type KeyId = (typeof keyIds)[number];

/** Refusals of one scope that a process may repeat from memory. */
interface Refused {
  readonly process: Process;
  readonly scope: string;
  readonly at: number;
  readonly costMilliCu: number;
}

export abstract class Witness {
  now = Date.UTC(2026, 0, 15, 12);
  readonly #startedAt = this.now;
  readonly ledger: MemoryLedger;
  readonly processes: Process[] = [];
  readonly opened = new Map<LeasedReservation, Opened>();
  readonly #limits = new Map<string, Limits>();
  /** The highest limits that each scope ever had, because lowering a limit does not take back what was granted. */
  readonly #highest = new Map<string, readonly number[]>();
  #accounts = new Map<KeyId, Account>();
  /** All posted charges, in order, and by the id of their request. */
  readonly charges: (LeasedCharge & { readonly postedAt: number })[] = [];
  readonly charged = new Map<string, LeasedCharge>();
  /** Charges without a lease of their own, by scope: only a forced reservation has them. */
  readonly #uncovered = new Map<string, number>();
  readonly #refused: Refused[] = [];
  readonly counters = {
    reserved: 0,
    posted: 0,
    refused: 0,
    unavailable: 0,
    lost: 0,
    fenced: 0,
    recalls: 0,
  };

  get #months(): number {
    const [start, now] = [this.#startedAt, this.now].map((time) => new Date(time));
    return (
      (now!.getUTCFullYear() - start!.getUTCFullYear()) * 12 +
      now!.getUTCMonth() -
      start!.getUTCMonth() +
      1
    );
  }

  constructor(makeLedger: (now: () => number) => MemoryLedger) {
    this.ledger = makeLedger(() => this.now);
  }

  setLimits(scope: string, limits: Limits): void {
    this.#limits.set(scope, limits);
    const amounts = capacities(limits);
    this.#highest.set(
      scope,
      amounts.map((amount, at) => Math.max(amount, this.#highest.get(scope)?.[at] ?? 0)),
    );
    this.#accounts = new Map();
  }

  account(keyId: KeyId): Account {
    let account = this.#accounts.get(keyId);
    if (account === undefined) {
      const workspaceId = workspaceOf[keyId];
      const workspaceLimits = this.#limits.get(workspaceId) as WorkspaceLimits;
      account = {
        keyId,
        keyLimits: this.#limits.get(keyId),
        workspaceId,
        workspaceLimits,
        scopes: [],
      };
      this.#accounts.set(keyId, account);
    }
    // Each replica has leases of its own.
    return { ...account };
  }

  grantedAt(scope: string): number {
    let total = 0;
    for (const { granted } of this.ledger.scopes.get(scope)?.leases.values() ?? [])
      total += granted;
    return total;
  }

  /** Where a grant has risen, the posted and held amounts stay within the limits of the request. */
  checkGrant(id: string, limits: Limits, before: number): void {
    const scope = this.ledger.scopes.get(id);
    if (scope === undefined || this.grantedAt(id) <= before) return;
    const held = heldIn(scope);
    for (const [posted, capacity] of this.#posted(scope, limits)) {
      assert.ok(
        posted + held <= capacity,
        `${id}: ${posted} posted and ${held} held of ${capacity}`,
      );
    }
  }

  /** Returns what is posted and its limit, for each window of a key, or for the month of a workspace. */
  #posted(scope: ScopeRow, limits: Limits): readonly (readonly [number, number])[] {
    const { dayMilliCu, monthMilliCu, months } = usedOf(scope, this.now);
    if (limits.kind === "key") {
      return [
        [dayMilliCu, limits.dayMilliCu],
        [monthMilliCu, limits.monthMilliCu],
      ];
    }
    const month = currentMonth(this.now, months, scope.fixed, limits);
    return [[month.sumMilliCu, monthLimit(limits, month.purchasedBeforeMilliCu)]];
  }

  count(charge: LeasedCharge): void {
    const id = charge.details.about.requestId;
    assert.ok(!this.charged.has(id), `charge ${id} is posted twice`);
    this.charges.push({ ...charge, postedAt: this.now });
    this.charged.set(id, charge);
    const { keyId, workspaceId, costMilliCu, takenMilliCu, keyTakenMilliCu } = charge;
    const add = (scope: string, amount: number): void => {
      this.#uncovered.set(scope, (this.#uncovered.get(scope) ?? 0) + amount);
    };
    add(workspaceId, costMilliCu - takenMilliCu);
    add(keyId, costMilliCu - keyTakenMilliCu);
  }

  notice(opened: Opened): void {
    const { reservation, process, ids } = opened;
    const { state, costMilliCu } = reservation;
    if (state === "refused" || state === "lost") {
      for (const { id } of reservation.scopes) {
        this.#refused.push({ process, scope: id, at: this.now, costMilliCu });
      }
    }
    if (state === "refused") {
      this.counters.refused++;
      // At some instant of the request, the credit that may have been in use must have left no room.
      assert.ok(opened.couldBeRefused, `refused ${costMilliCu} although credit was left`);
    }
    if (state === "unavailable") this.counters.unavailable++;
    if (state === "lost") {
      this.counters.lost++;
      for (const id of ids)
        assert.ok(!this.charged.has(id), `charge ${id} was given up, and is posted`);
    }
    if (state === "posted") {
      this.counters.posted++;
      for (const id of ids)
        assert.ok(this.charged.has(id), `charge ${id} is answered, and not posted`);
    }
    if (state !== "open") drop(process.open, opened);
  }

  #isFull({ account }: LeasedReservation): boolean {
    const { workspaceId, workspaceLimits, keyId, keyLimits } = account;
    return (
      this.#isScopeFull(workspaceId, workspaceLimits) ||
      (keyLimits !== undefined && this.#isScopeFull(keyId, keyLimits))
    );
  }

  /** The limits may have changed since the reservation was made, so the lower ones count. */
  #isScopeFull(id: string, limits: Limits): boolean {
    return [limits, this.#limits.get(id) ?? limits].some((each) => {
      const scope = this.ledger.scopes.get(id);
      const posted =
        scope === undefined ? [[0, totalOf(each)] as const] : this.#posted(scope, each);
      const asked = this.#asked(id);
      return posted.some(([used, limit]) => used + asked > limit);
    });
  }

  /** Returns what clients have reserved or settled, and what they ask for. */
  #asked(id: string): number {
    let total = 0;
    for (const { reservation, ids } of this.opened.values()) {
      if (reservation.account.workspaceId !== id && reservation.account.keyId !== id) continue;
      if (reservation.state === "waiting" || reservation.state === "open")
        total += reservation.costMilliCu;
      const isOnItsWay = reservation.state === "settling" && !this.charged.has(ids[0]!);
      if (isOnItsWay) for (const { costMilliCu } of reservation.charges) total += costMilliCu;
    }
    return total;
  }

  checkRemembered({ reservation, process }: Opened): void {
    const isRemembered = this.#refused.some(
      (each) =>
        each.process === process &&
        this.now - each.at < 1_000 &&
        each.costMilliCu <= reservation.costMilliCu &&
        reservation.scopes.some(({ id }) => id === each.scope),
    );
    assert.ok(isRemembered, "refused without asking, and nothing is remembered");
  }

  check(): void {
    for (const { open } of this.processes) open.forEach((opened) => this.noteUse(opened));
    for (const [id, scope] of this.ledger.scopes) {
      const limits = this.#limits.get(id);
      if (limits === undefined) continue;
      const uncovered = this.#uncovered.get(id) ?? 0;
      const highest = this.#highest.get(id)!;
      if (limits.kind === "key") {
        for (const [at, [posted]] of this.#posted(scope, limits).entries()) {
          assert.ok(
            posted <= highest[at]! + uncovered,
            `${id}: ${posted} posted of ${highest[at]}`,
          );
        }
        continue;
      }
      const [included = 0, purchased = 0, overage = 0] = highest;
      let posted = 0;
      for (const milliCu of scope.months.values()) posted += milliCu;
      const most = this.#months * (included + overage) + purchased;
      assert.ok(posted <= most + uncovered, `${id}: ${posted} posted of ${most}`);
    }
    for (const { replica } of this.processes) this.#checkKnown(replica);
  }

  /** Whatever a replica believes it holds, the ledger counts as granted. */
  #checkKnown(replica: LedgerReplica): void {
    const number = replica.replica;
    if (number === undefined || this.ledger.replicas.get(number)?.state !== "live") return;
    for (const scope of replica.credit.scopes) {
      const lease = this.ledger.scopes.get(scope.id)?.leases.get(number);
      const known: number = lease?.granted ?? 0;
      assert.ok(scope.slackMilliCu >= 0, `${scope.id}: more reserved than granted`);
      assert.ok(scope.granted <= known, `${scope.id}: the ledger does not know of a grant`);
    }
  }

  noteUse(opened: Opened): void {
    if (opened.couldBeRefused || opened.reservation.state !== "waiting") return;
    opened.couldBeRefused = this.#isFull(opened.reservation);
  }

  /** Every answered reservation has its charges, and every charge has a reservation that is not given up. */
  checkSums(): void {
    const ids = new Set<string>();
    for (const opened of this.opened.values()) {
      const { reservation } = opened;
      if (reservation.state === "settling") {
        assert.ok(
          !this.processes.includes(opened.process),
          "a charge is neither posted nor given up",
        );
      }
      for (const id of opened.ids) {
        if (this.charged.has(id)) ids.add(id);
        else assert.notEqual(reservation.state, "posted", `charge ${id} is lost`);
      }
    }
    assert.equal(ids.size, this.charged.size);
    for (const [id, scope] of this.ledger.scopes) {
      if (!id.startsWith("ws")) continue;
      const kept = [...scope.months.values()].reduce((all, milliCu) => all + milliCu, 0);
      const charges = this.charges.filter(({ workspaceId }) => workspaceId === id);
      assert.equal(
        kept,
        charges.reduce((all, { costMilliCu }) => all + costMilliCu, 0),
      );
    }
  }
}

function capacities(limits: Limits): readonly number[] {
  return limits.kind === "key"
    ? [limits.dayMilliCu, limits.monthMilliCu]
    : [limits.includedMilliCu, limits.purchasedMilliCu, limits.overageMilliCu];
}

function totalOf(limits: Limits): number {
  return limits.kind === "key"
    ? Math.min(limits.dayMilliCu, limits.monthMilliCu)
    : monthLimit(limits, 0);
}

function heldIn(scope: ScopeRow): number {
  let held = 0;
  for (const lease of scope.leases.values()) held += outstanding(lease);
  return held;
}

export function drop<T>(list: T[], item: T): void {
  const at = list.indexOf(item);
  if (at >= 0) list.splice(at, 1);
}
