/** The slots of idempotency keys in a store of accounts. A slot is either in flight, with an owner, or has a response. */
import type { Awaitable } from "sluice-gateway/plugin";
import type { IdempotentRequest, NotRunReason, StoredResponse } from "sluice-gateway/services";

/** gateway.md, "Idempotency": the replay window. */
export const keptMs = 24 * 3_600_000;
/** Duration of the lease of a slot in flight (decisions.md section 11). */
export const leaseMs = 60_000;

/** Every method fails if the store cannot be used. An expired slot counts as missing. */
export interface SlotStore {
  /** Runs `work` in one transaction, which all changes of the accounts inside `work` join. */
  transaction<T>(work: () => Awaitable<T>): Awaitable<T>;
  /** Takes the slot for `owner`. Returns the reason if the request must not run. */
  take(request: IdempotentRequest, owner: string): Awaitable<NotRunReason | undefined>;
  /**
   * Returns the reason if the request must not run. Otherwise no other request can take the slot before the end of the
   * transaction. Call it in a transaction.
   */
  find(request: IdempotentRequest): Awaitable<NotRunReason | undefined>;
  /** Stores the response, whether or not the slot has an owner. */
  put(request: IdempotentRequest, response: StoredResponse): Awaitable<void>;
  /** Deletes the slot, so that a repeated request runs again. */
  forget(request: IdempotentRequest): Awaitable<void>;
  /** Stores the response in the slot of this owner. Returns false if the owner no longer has the slot. */
  finish(owner: string, response: StoredResponse): Awaitable<boolean>;
  /** Deletes the slot of this owner, if it still has it. */
  release(owner: string): Awaitable<void>;
  /** Renews the leases of these owners. */
  renew(owners: readonly string[]): Awaitable<void>;
  /** Deletes up to `max` expired slots. Returns their number. */
  sweep(max: number): Awaitable<number>;
}
