/** The service `host.idempotency`, requests that run once however often they are sent: implemented in src/accounts. */

/** A request under an idempotency key. */
export interface IdempotentRequest {
  /** Whose it is: the same key of another API key is another slot. */
  readonly apiKeyId: string;
  readonly key: string;
  /** The same for the same request: SHA-256, hex. */
  readonly fingerprint: string;
}

/** What is given again to a request that is repeated. */
export interface StoredResponse {
  readonly status: number;
  readonly contentType: string | undefined;
  /** Of the body as it is kept. */
  readonly contentEncoding: string | undefined;
  readonly body: Uint8Array;
}

/**
 * Why a request must not run: it has been answered (`replay`), it runs just now (`inFlight`), the key was used for
 * another request (`mismatch`), or the store cannot be written (`unavailable`).
 */
export type NotRun =
  | { readonly kind: "replay"; readonly response: StoredResponse }
  | { readonly kind: "inFlight" | "mismatch" | "unavailable" };

/** The slot of a request that runs. It is held by a lease, which is renewed until one of these is called, once. */
export interface IdempotencySlot {
  /**
   * Keeps the response for 24 hours, on disk when it returns. False: it could not be written; the slot ends with its
   * lease.
   */
  store(response: StoredResponse): boolean;
  /** A repetition runs anew. */
  release(): void;
}

/**
 * What becomes of work in the store: its response is kept with it, or only the work stands and a repetition runs anew
 * (`release`), or the work is undone.
 */
export type WorkEnd = StoredResponse | "release" | "undo";

/** Slots are shared by every gateway on the same store. A slot whose owner died is free again after 60 s. */
export interface Idempotency {
  /** Takes the request's slot, on disk when it returns, so that the work may begin. */
  take(
    request: IdempotentRequest,
  ): { readonly kind: "taken"; readonly slot: IdempotencySlot } | NotRun;
  /**
   * Runs synchronous work that changes nothing but the accounts (`host.workspaces`, `host.networks.override`) in one
   * transaction with its slot and its response. `unavailable`: not even the work was done. Throws what `work` throws,
   * and nothing was done either.
   */
  once(request: IdempotentRequest, work: () => WorkEnd): { readonly kind: "ran" } | NotRun;
}
