import type { Account, Lease, LeasedReservation } from "./leased-reservation.ts";
import type { Limits } from "./ledger.ts";
import { ScopeLease } from "./scope-lease.ts";

/** Interval of sweeps over all leases, which return unused ones. A sweep takes about 1 ms. */
const sweepMs = 250;
const leasesPerSweep = 5_000;

export class LeaseSet {
  readonly #leases = new Map<string, Lease>();
  /** The leases that have changed or wait for credit (`isTouched`). A lease request checks only these. */
  #touched: Lease[] = [];
  #sweeping: MapIterator<Lease> = this.#leases.values();
  #sweepAt = 0;

  all(): Iterable<Lease> {
    return this.#leases.values();
  }

  get(scope: string): Lease | undefined {
    return this.#leases.get(scope);
  }

  /** Returns the leases of the scopes of `account`, the workspace first. */
  use(now: number, account: Account, costMilliCu: number): readonly Lease[] {
    const { keyId, keyLimits, workspaceId, workspaceLimits } = account;
    let [workspace, key] = account.scopes;
    if (workspace === undefined || workspace.isForgotten || key?.isForgotten === true) {
      workspace = this.#find(now, workspaceId, workspaceLimits);
      key = keyLimits === undefined ? undefined : this.#find(now, keyId, keyLimits);
      account.scopes = key === undefined ? [workspace] : [workspace, key];
    }
    this.touch(workspace);
    workspace.use(now, workspaceLimits, costMilliCu);
    if (key !== undefined && keyLimits !== undefined) {
      this.touch(key);
      key.use(now, keyLimits, costMilliCu);
    }
    return account.scopes;
  }

  #find(now: number, scope: string, limits: Limits): Lease {
    let lease = this.#leases.get(scope);
    if (lease === undefined) {
      lease = new ScopeLease<LeasedReservation>(scope, limits, now);
      this.#leases.set(scope, lease);
    }
    return lease;
  }

  touch(lease: Lease): void {
    if (lease.isTouched) return;
    lease.isTouched = true;
    this.#touched.push(lease);
  }

  /** Rarely called, because it visits every lease. */
  touchAll(change: (lease: Lease) => void): void {
    for (const lease of this.#leases.values()) {
      change(lease);
      this.touch(lease);
    }
  }

  /** Returns up to `most` leases whose state the caller must send to the ledger now. */
  takeDue(now: number, most: number): readonly Lease[] {
    const due: Lease[] = [];
    this.#touched = this.#touched.filter((lease) => {
      if (due.length === most) return true;
      const isDue = lease.isDue(now);
      if (isDue) due.push(lease);
      lease.isTouched = !isDue && lease.isAsking;
      return lease.isTouched;
    });
    return due;
  }

  /** Deletes unused leases that the ledger does not know. `isAsked`: whether a reply will be received for a lease. */
  sweep(now: number, isAsked: (lease: Lease) => boolean): void {
    if (now < this.#sweepAt) return;
    this.#sweepAt = now + sweepMs;
    for (let n = 0; n < leasesPerSweep; n++) {
      const { value: lease, done } = this.#sweeping.next();
      if (done === true) {
        this.#sweeping = this.#leases.values();
        return;
      }
      if (isAsked(lease)) continue;
      if (lease.isForgettable(now)) {
        this.#leases.delete(lease.id);
        lease.isForgotten = true;
      } else if (lease.isDue(now)) this.touch(lease);
    }
  }
}
