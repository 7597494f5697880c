/** `idempotency` of the service `accounts`: a request that is sent several times runs once. */
import type { Awaitable } from "sluice-gateway/plugin";

export interface IdempotentRequest {
  /** The API key, or the user of the dashboard, that sent the request. Each has its own idempotency keys. */
  readonly apiKeyId: string;
  readonly key: string;
  /** SHA-256 of the request, in hex: equal requests have equal fingerprints. */
  readonly fingerprint: string;
}

export interface StoredResponse {
  readonly status: number;
  readonly contentType: string | undefined;
  readonly contentEncoding: string | undefined;
  readonly body: Uint8Array;
}

/**
 * The request was already answered (`replay`), is still running (`inFlight`), its key was used for a different request
 * (`mismatch`), or the store cannot be written (`unavailable`).
 */
export type NotRunReason =
  | { readonly kind: "replay"; readonly response: StoredResponse }
  | { readonly kind: "inFlight" | "mismatch" | "unavailable" };

/** The slot of a running request. Its lease is renewed until `store` or `release` is called, once. */
export interface IdempotencySlot {
  /** Stores the response for 24 hours, durably. Returns false if it cannot; the slot then expires with its lease. */
  store(response: StoredResponse): Promise<boolean>;
  /** Frees the slot, so that a repeated request runs again. */
  release(): Promise<void>;
}

/**
 * A response commits the work of a transaction and is stored with it. `release` commits the work and lets a repeated
 * request run again. `undo` rolls the work back.
 */
export type TransactionEnd = StoredResponse | "release" | "undo";

/**
 * All gateways on the same store share the slots. If the gateway that holds a slot crashes, the slot is free after 60
 * s. No method throws because of the store: the result is then `unavailable`.
 */
export interface Idempotency {
  /** Takes the slot of the request, durably. The work may start after this. */
  take(
    request: IdempotentRequest,
  ): Promise<{ readonly kind: "taken"; readonly slot: IdempotencySlot } | NotRunReason>;
  /**
   * Runs work that changes only the accounts (`Accounts.workspaces`, `Networks.override`) in one transaction with its
   * slot and its response. The work may wait for these changes, but for nothing else, because other transactions may
   * wait for it. `unavailable` means that the work was not done, or that a store on another host did not report
   * whether it was done. If the same request is sent again, it gets the response or runs. If `work` fails, nothing is
   * done, and this method fails with the same error.
   */
  once(
    request: IdempotentRequest,
    work: () => Awaitable<TransactionEnd>,
  ): Promise<{ readonly kind: "ran" } | NotRunReason>;
}
