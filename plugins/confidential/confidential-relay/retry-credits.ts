/** Credit in memory, for the time in which the store cannot be written. */
import type { Clock, Metrics } from "sluice-gateway/plugin";
import { BoundedMap } from "sluice-gateway/internal/toolkit";
import { creditsKeptMs, type StreamAttempt } from "./stream-store.ts";

export interface AnswerBytes {
  /** Bytes that were written to the client's connection while it was open. */
  readonly sent: number;
  readonly all: number;
}

/**
 * The part of a cost that is credited for an interrupted answer: `costMilli × (1 − sent / all)`, rounded down. The
 * whole cost is credited if no chunk was sent. `sent` and `all` are bytes of ciphertext chunks.
 */
export function creditMilliCu(costMilliCu: number, { sent, all }: AnswerBytes): number {
  if (sent === 0) return costMilliCu;
  // Both factors can have more than 32 bits.
  const unsent = BigInt(Math.max(0, all - sent));
  return Number((BigInt(costMilliCu) * unsent) / BigInt(Math.max(1, all)));
}

interface Credit {
  readonly milli: number;
  /** Milliseconds since 1970. */
  readonly until: number;
}

const maxKeys = 10_000;
const maxCreditsPerKey = 64;

export class MemoryRetryCredits {
  readonly #clock: Clock;
  readonly #credits = new BoundedMap<string, BoundedMap<string, Credit>>(maxKeys);
  readonly #givenMilliCu;
  readonly #given;

  constructor(clock: Clock, metrics: Metrics) {
    this.#clock = clock;
    this.#given = metrics
      .counter(
        "sluice_stream_retry_credits_total",
        "Requests of the encrypted stream that cost less because an earlier answer broke off.",
      )
      .with({});
    this.#givenMilliCu = metrics
      .counter(
        "sluice_stream_retry_credit_cu_milli_total",
        "Milli-CU that were deducted from requests because an earlier answer broke off.",
      )
      .with({});
  }

  add(attempt: StreamAttempt, milli: number): void {
    const name = attemptName(attempt);
    if (name === undefined || milli === 0) return;
    const { keyId } = attempt;
    const before = this.#find(keyId, name)?.milli ?? 0;
    const credits = this.#credits.get(keyId) ?? new BoundedMap<string, Credit>(maxCreditsPerKey);
    credits.set(name, { milli: before + milli, until: this.#clock.now() + creditsKeptMs });
    this.#credits.set(keyId, credits);
  }

  take(attempt: StreamAttempt, costMilliCu: number): number {
    const name = attemptName(attempt);
    if (name === undefined) return 0;
    const { keyId } = attempt;
    const found = this.#find(keyId, name);
    if (found === undefined) return 0;
    const used = Math.min(found.milli, costMilliCu);
    const credits = this.#credits.get(keyId);
    if (used < found.milli) credits?.set(name, { ...found, milli: found.milli - used });
    else credits?.delete(name);
    if (credits?.size === 0) this.#credits.delete(keyId);
    this.count(used);
    return used;
  }

  count(usedMilliCu: number): void {
    if (usedMilliCu === 0) return;
    this.#given.add(1);
    this.#givenMilliCu.add(usedMilliCu);
  }

  #find(keyId: string, name: string): Credit | undefined {
    const found = this.#credits.peek(keyId)?.peek(name);
    return found !== undefined && this.#clock.now() < found.until ? found : undefined;
  }
}

/** The name under which credits are stored. Undefined if the session has no idempotency key. */
export function attemptName({ hello, requestBytes }: StreamAttempt): string | undefined {
  const { idempotencyKey, network, model, maxOutputTokens } = hello;
  if (idempotencyKey === undefined) return undefined;
  return JSON.stringify([idempotencyKey, network, model, maxOutputTokens, requestBytes]);
}
