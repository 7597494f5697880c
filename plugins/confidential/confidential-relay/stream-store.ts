/**
 * The store of the sessions of the encrypted stream: receipts, the ids of sessions, and credit for interrupted
 * answers. The data folder and PostgreSQL implement it; the tests in test/contract/receipts.ts hold for both.
 */
import type { Awaitable } from "sluice-gateway/plugin";
import type { Receipt } from "sluice-gateway/services";
import type { Hello } from "../protocol/hello.ts";

/** Time for which receipts are kept. confidential-stream.md section 2 requires 30 days. */
export const receiptsKeptMs = 90 * 86_400_000;
/** Time for which credit for interrupted answers is kept. */
export const creditsKeptMs = 3_600_000;

export interface StreamStore {
  readonly receipts: ReceiptStore;
  readonly sessionIds: SessionIds;
  readonly retryCredits: RetryCredits;
  /** Resolves when the receipts that are waiting have been written. */
  close(): Awaitable<void>;
}

/** Receipts remain after their key is deleted, after their keyset expires and after a restart. */
export interface ReceiptStore {
  /**
   * Stores a receipt, unless this request already has one. Resolves to true when it is durable, or to false if it could
   * not be written.
   */
  keep(receipt: Receipt): Promise<boolean>;
  /** Fails with a StoreError. */
  find(session: string, rid: number): Awaitable<Receipt | undefined>;
}

/**
 * The ids of sessions, which enclaves choose. Each id is used only once, as far back as there are receipts. Otherwise
 * an enclave could charge a request of an earlier session again, or make two customers' receipts collide.
 */
export interface SessionIds {
  /**
   * Claims an id. Returns false if an open or earlier session has it. `id`: base64url of 16 bytes. Fails with a
   * StoreError, after which the id may be used up.
   */
  claim(id: string): Awaitable<boolean>;
  /** Releases the id of a session that has ended and whose receipts are durable. */
  release(id: string): void;
}

export interface StreamAttempt {
  readonly keyId: string;
  readonly hello: Pick<Hello, "idempotencyKey" | "network" | "model" | "maxOutputTokens">;
  /** Total size of the request's frames. */
  readonly requestBytes: number;
}

/**
 * Credit for answers that were interrupted before they reached their client, by the idempotency key of the session's
 * `hello`. A retry of such a request costs that much less. Credits are kept for an hour.
 *
 * The gateway cannot decrypt requests and therefore cannot compare them. Two requests must at least have the same
 * model, the same maximum number of output tokens and the same length. `creditMilliCu` protects the operator: the part
 * of an answer that was sent is never credited, so a client that disconnects early and sends a different request has
 * paid for both. Credit counts once. It is not renewed if the retry is also interrupted.
 */
export interface RetryCredits {
  /** Adds credit for the part of an answer that was not sent. `milli`: the cost of that part. Never fails. */
  add(attempt: StreamAttempt, milli: number): Awaitable<void>;
  /**
   * Uses the credit of earlier attempts for a cost. Returns how much of the cost it covers, in milli-CU. Never fails.
   */
  take(attempt: StreamAttempt, costMilliCu: number): Awaitable<number>;
}
