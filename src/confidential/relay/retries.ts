/**
 * What was charged for answers that broke off on their way to the client, by the idempotency key of its `hello`: the attempt
 * that takes its place costs so much less. In memory, for as long as anybody would try again.
 *
 * Nobody here can read whether two requests are the same. They must at least ask the same model for as much, in as many
 * bytes; and what was paid counts once, so that whoever leaves before the end on purpose gets no third answer for it.
 */
import type { Clock } from "../../services/clock.ts";
import type { Hello } from "../hello.ts";

export interface Attempt {
  readonly keyId: string;
  readonly hello: Pick<Hello, "idempotencyKey" | "network" | "model" | "maxOutputTokens">;
  /** Of the frames of the request. */
  readonly requestBytes: number;
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
  lost(attempt: Attempt, milli: number): void {
    const name = nameOf(attempt);
    if (name === undefined || milli === 0) return;
    const before = this.#find(name)?.milli ?? 0;
    this.#lost.delete(name);
    this.#lost.set(name, { milli: before + milli, until: this.#clock.now() + keptMs });
    const oldest = this.#lost.keys().next().value;
    if (this.#lost.size > mostEntries && oldest !== undefined) this.#lost.delete(oldest);
  }

  /** How much of a cost has been paid by attempts before, milli-CU; it is used up. */
  paid(attempt: Attempt, costMilli: number): number {
    const name = nameOf(attempt);
    if (name === undefined) return 0;
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

/** Undefined: the attempt takes no other's place. */
function nameOf({ keyId, hello, requestBytes }: Attempt): string | undefined {
  const { idempotencyKey, network, model, maxOutputTokens } = hello;
  if (idempotencyKey === undefined) return undefined;
  return JSON.stringify([keyId, idempotencyKey, network, model, maxOutputTokens, requestBytes]);
}
