/**
 * `idempotency` of the service `accounts`. The slots are in a store; this file renews the leases of the slots in
 * flight.
 */
import { randomUUID } from "node:crypto";
import type { Awaitable, Clock, Log } from "sluice-gateway/plugin";
import type {
  Idempotency,
  IdempotencySlot,
  IdempotentRequest,
  NotRunReason,
  TransactionEnd,
} from "sluice-gateway/services";
import { andThen, orElse } from "sluice-gateway/toolkit";
import type { SlotStore } from "./slot-store.ts";

export interface IdempotencyDeps {
  readonly slots: SlotStore;
  readonly clock: Clock;
  readonly log: Log;
}

export interface IdempotencyService extends Idempotency {
  /** Stops the timers. Slots that are still held expire with their lease. */
  close(): void;
}

/** Interval of renewals. Two renewals may fail before a lease ends. */
const renewMs = 20_000;
const sweepMs = 60_000;
/** Maximum number of slots deleted per write, because a write blocks the event loop. The rest is deleted soon after. */
const sweepRows = 200;
const sweepAgainMs = 250;

const ran = { kind: "ran" } as const;
const unavailable = { kind: "unavailable" } as const;

export function openIdempotency(parts: IdempotencyDeps): IdempotencyService {
  return new LeasedSlots(parts);
}

class LeasedSlots implements IdempotencyService {
  readonly #slots: SlotStore;
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #timers: readonly Disposable[];
  #sweepAgain: Disposable | undefined;
  #isClosed = false;
  /** Owners of the slots whose leases must be renewed. */
  readonly #held = new Set<string>();

  constructor({ slots, clock, log }: IdempotencyDeps) {
    this.#slots = slots;
    this.#clock = clock;
    this.#log = log;
    this.#timers = [
      clock.every(renewMs, () => this.#renew()),
      clock.every(sweepMs, () => this.#sweep()),
    ];
  }

  take(request: IdempotentRequest): ReturnType<Idempotency["take"]> {
    const owner = randomUUID();
    return this.#orElse<Awaited<ReturnType<Idempotency["take"]>>>(
      () =>
        andThen(this.#slots.take(request, owner), (found) => {
          if (found !== undefined) return found;
          this.#held.add(owner);
          return { kind: "taken", slot: this.#slot(owner) };
        }),
      unavailable,
      "an idempotency slot could not be taken",
    );
  }

  once(
    request: IdempotentRequest,
    work: () => Awaitable<TransactionEnd>,
  ): ReturnType<Idempotency["once"]> {
    let threw: { readonly error: unknown } | undefined;
    let isUndone = false;
    const attempt = (): Awaitable<typeof ran | NotRunReason> =>
      andThen(this.#slots.find(request), (found): Awaitable<typeof ran | NotRunReason> => {
        if (found !== undefined) return found;
        const worked = orElse(work, (error): never => {
          threw = { error };
          throw error;
        });
        return andThen(worked, (end) => {
          isUndone = end === "undo";
          if (end === "undo") throw new Error("the handler rolled the request back");
          const stored =
            end === "release" ? this.#slots.forget(request) : this.#slots.put(request, end);
          return andThen(stored, () => ran);
        });
      });
    return orElse<typeof ran | NotRunReason>(
      () => this.#slots.transaction(attempt),
      (error) => {
        if (threw !== undefined) throw threw.error;
        if (isUndone) return ran;
        this.#log.error({ err: error }, "a request with an idempotency key was rolled back");
        return unavailable;
      },
    );
  }

  close(): void {
    this.#isClosed = true;
    for (const timer of this.#timers) timer[Symbol.dispose]();
    this.#sweepAgain?.[Symbol.dispose]();
  }

  #slot(owner: string): IdempotencySlot {
    return {
      store: (response) => {
        this.#held.delete(owner);
        return this.#orElse(
          () => this.#slots.finish(owner, response),
          false,
          "cannot store the response of a request with an idempotency key",
        );
      },
      release: () => {
        this.#held.delete(owner);
        return this.#orElse(
          () => this.#slots.release(owner),
          undefined,
          "cannot release an idempotency slot; it expires with its lease",
        );
      },
    };
  }

  #renew(): void {
    if (this.#held.size === 0) return;
    void this.#orElse(
      () => this.#slots.renew([...this.#held]),
      undefined,
      "cannot renew the leases of idempotency slots",
    );
  }

  #sweep(): void {
    this.#sweepAgain?.[Symbol.dispose]();
    this.#sweepAgain = undefined;
    const deleted = this.#orElse(
      () => this.#slots.sweep(sweepRows),
      0,
      "cannot delete expired idempotency slots; trying again",
    );
    void andThen(deleted, (count) => {
      if (count !== sweepRows || this.#isClosed) return;
      this.#sweepAgain = this.#clock.after(sweepAgainMs, () => this.#sweep());
    });
  }

  /** Runs `work`. Logs `complaint` and returns `otherwise` if the store cannot be used. */
  #orElse<T>(work: () => Awaitable<T>, otherwise: T, complaint: string): Awaitable<T> {
    return orElse(work, (error) => {
      this.#log.error({ err: error }, complaint);
      return otherwise;
    });
  }
}
