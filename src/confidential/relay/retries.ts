/**
 * What was charged for answers that broke off on their way to the client, by the idempotency key of its `hello`: the attempt
 * that takes its place costs so much less. In memory, for as long as anybody would try again.
 */
import type { Clock } from "../../services/clock.ts";

export interface Attempt {
  readonly keyId: string;
  /** Of `hello`; undefined: no attempt takes another's place. */
  readonly idempotencyKey: string | undefined;
}

interface Lost {
  readonly milli: number;
  /** Milliseconds since 1970. */
  readonly until: number;
}

const keptMs = 3_600_000;
const mostEntries = 10_000;

export class Retries {
  readonly #clock: Clock;
  /** Oldest first. */
  readonly #lost = new Map<string, Lost>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** An answer that cost so much did not arrive. */
  lost({ keyId, idempotencyKey }: Attempt, milli: number): void {
    if (idempotencyKey === undefined || milli === 0) return;
    const name = nameOf(keyId, idempotencyKey);
    const before = this.#find(name)?.milli ?? 0;
    this.#lost.delete(name);
    this.#lost.set(name, { milli: before + milli, until: this.#clock.now() + keptMs });
    const oldest = this.#lost.keys().next().value;
    if (this.#lost.size > mostEntries && oldest !== undefined) this.#lost.delete(oldest);
  }

  /** How much of a cost has been paid by attempts before, milli-CU; it is used up. */
  paid({ keyId, idempotencyKey }: Attempt, costMilli: number): number {
    if (idempotencyKey === undefined) return 0;
    const name = nameOf(keyId, idempotencyKey);
    const found = this.#find(name);
    this.#lost.delete(name);
    if (found === undefined) return 0;
    const used = Math.min(found.milli, costMilli);
    if (used < found.milli) this.#lost.set(name, { ...found, milli: found.milli - used });
    return used;
  }

  #find(name: string): Lost | undefined {
    const found = this.#lost.get(name);
    return found !== undefined && this.#clock.now() < found.until ? found : undefined;
  }
}

function nameOf(keyId: string, idempotencyKey: string): string {
  return `${keyId} ${idempotencyKey}`;
}
