/**
 * Receipts, the ids of sessions, and credit for interrupted answers. The tests in test/contract/receipts.ts run on both
 * stores.
 */
import type { Receipt } from "sluice-gateway/services";
import type { Hello } from "../protocol/hello.ts";

/** Time for which receipts are kept. confidential-stream.md section 2 requires 30 days. */
export const receiptsKeptMs = 90 * 86_400_000;
/** SQL for the claim of the id of a session, which can be used once while its receipts are kept. */
export const sessionClaim = (id: string): string => `'stream ' || CAST(${id} AS text)`;
export const creditsKeptMs = 3_600_000;

export interface StreamStore {
  readonly receipts: ReceiptStore;
  readonly sessionIds: SessionIds;
  readonly retryCredits: RetryCredits;
  close(): Promise<void>;
}

/** Receipts remain after their key is deleted, after their keyset expires and after a restart. */
export interface ReceiptStore {
  /**
   * Stores a receipt, unless this request already has one. Resolves to true when it is durable, or to false if it could
   * not be written.
   */
  keep(receipt: Receipt): Promise<boolean>;
  /** Rejects with a StoreError. */
  find(session: string, rid: number): Promise<Receipt | undefined>;
}

/**
 * Enclaves choose the ids of sessions. Each id is used only once, as far back as there are receipts. Otherwise an
 * enclave could charge a request of an earlier session again, or make two customers' receipts collide.
 */
export interface SessionIds {
  /**
   * Resolves to false if an open or earlier session has the id. `id`: base64url of 16 bytes. Rejects with a StoreError,
   * after which the id may be used up.
   */
  claim(id: string): Promise<boolean>;
}

export interface StreamAttempt {
  readonly keyId: string;
  readonly hello: Pick<Hello, "idempotencyKey" | "network" | "model" | "maxOutputTokens">;
  readonly requestBytes: number;
}

/**
 * Credit for answers that were interrupted before they reached their client, by the idempotency key of the session's
 * `hello`. A retry of such a request costs that much less.
 *
 * The gateway cannot decrypt requests and therefore cannot compare them. Two requests must at least have the same
 * model, the same maximum number of output tokens and the same length. `creditMilliCu` protects the operator: the part
 * of an answer that was sent is never credited, so a client that disconnects early and sends a different request has
 * paid for both. Credit counts once. It is not renewed if the retry is also interrupted.
 */
export interface RetryCredits {
  /** Adds credit for the part of an answer that was not sent. `milli`: the cost of that part. Never fails. */
  add(attempt: StreamAttempt, milli: number): Promise<void>;
  /** Resolves to how much of the cost the credit of earlier attempts covers, in milli-CU. Never fails. */
  take(attempt: StreamAttempt, costMilliCu: number): Promise<number>;
}
