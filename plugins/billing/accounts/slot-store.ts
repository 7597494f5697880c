/** The slots of idempotency keys in a store of accounts. A slot is either in flight, with an owner, or has a response. */
import type { IdempotentRequest, NotRunReason, StoredResponse } from "sluice-gateway/services";

/** gateway.md, "Idempotency": the replay window. */
export const keptMs = 24 * 3_600_000;
/** Duration of the lease of a slot in flight (decisions.md section 11). */
export const leaseMs = 60_000;

/** Every method rejects if the store cannot be used. An expired slot counts as missing. */
export interface SlotStore {
  /** Runs `work` in one transaction, which all changes of the accounts and of slots inside `work` join. */
  transaction<T>(work: () => Promise<T>): Promise<T>;
  /**
   * Takes the slot for `owner`. Returns the reason if the request must not run. Inside a transaction, no other request
   * can take the slot before the end of the transaction.
   */
  take(request: IdempotentRequest, owner: string): Promise<NotRunReason | undefined>;
  /** Stores the response in the slot of this owner. Returns false if the owner no longer has the slot. */
  finish(owner: string, response: StoredResponse): Promise<boolean>;
  /** Deletes the slot of this owner, if it still has it. A repeated request runs again. */
  release(owner: string): Promise<void>;
  /** Renews the leases of these owners. */
  renew(owners: readonly string[]): Promise<void>;
  /** Deletes up to `max` expired slots. Returns their number. */
  sweep(max: number): Promise<number>;
}
