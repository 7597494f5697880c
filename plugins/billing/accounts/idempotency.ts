/** `idempotency` of the service `accounts`: renews the leases of the slots in flight, which are in a store. */
import { randomUUID } from "node:crypto";
import type { Awaitable, Clock, Log } from "sluice-gateway/plugin";
import type {
  Idempotency,
  IdempotencySlot,
  IdempotentRequest,
  NotRunReason,
  TransactionEnd,
} from "sluice-gateway/services";
import type { SlotStore } from "./slots.ts";

interface IdempotencyDeps {
  readonly slots: SlotStore;
  readonly clock: Clock;
  readonly log: Log;
}

/** Two renewals may fail before a lease ends. */
const renewMs = 20_000;
const sweepMs = 60_000;
/** Maximum number of slots deleted per write, because other changes wait for it. The rest is deleted soon after. */
const sweepRows = 200;
const sweepAgainMs = 250;

const ran = { kind: "ran" } as const;
const unavailable = { kind: "unavailable" } as const;

export class LeasedSlots implements Idempotency {
  readonly #slots: SlotStore;
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #timers: readonly Disposable[];
  #sweepAgain: Disposable | undefined;
  #isClosed = false;
  readonly #held = new Set<string>();

  constructor({ slots, clock, log }: IdempotencyDeps) {
    this.#slots = slots;
    this.#clock = clock;
    this.#log = log;
    this.#timers = [
      clock.every(renewMs, () => void this.#renew()),
      clock.every(sweepMs, () => void this.#sweep()),
    ];
  }

  take(request: IdempotentRequest): ReturnType<Idempotency["take"]> {
    const owner = randomUUID();
    return this.#orElse<Awaited<ReturnType<Idempotency["take"]>>>(
      async () => {
        const found = await this.#slots.take(request, owner);
        if (found !== undefined) return found;
        this.#held.add(owner);
        return { kind: "taken", slot: this.#slot(owner) };
      },
      unavailable,
      "an idempotency slot could not be taken",
    );
  }

  async once(
    request: IdempotentRequest,
    work: () => Awaitable<TransactionEnd>,
  ): Promise<typeof ran | NotRunReason> {
    const owner = randomUUID();
    let threw: { readonly error: unknown } | undefined;
    let isUndone = false;
    const attempt = async (): Promise<typeof ran | NotRunReason> => {
      const found = await this.#slots.take(request, owner);
      if (found !== undefined) return found;
      let end: TransactionEnd;
      try {
        end = await work();
      } catch (error) {
        threw = { error };
        throw error;
      }
      isUndone = end === "undo";
      if (end === "undo") throw new Error("the handler rolled the request back");
      await (end === "release" ? this.#slots.release(owner) : this.#slots.finish(owner, end));
      return ran;
    };
    try {
      return await this.#slots.transaction(attempt);
    } catch (error) {
      if (threw !== undefined) throw threw.error;
      if (isUndone) return ran;
      this.#log.error({ err: error }, "a request with an idempotency key was rolled back");
      return unavailable;
    }
  }

  /** Slots that are still held expire with their lease. */
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

  async #renew(): Promise<void> {
    if (this.#held.size === 0) return;
    await this.#orElse(
      () => this.#slots.renew([...this.#held]),
      undefined,
      "cannot renew the leases of idempotency slots",
    );
  }

  async #sweep(): Promise<void> {
    this.#sweepAgain?.[Symbol.dispose]();
    this.#sweepAgain = undefined;
    const count = await this.#orElse(
      () => this.#slots.sweep(sweepRows),
      0,
      "cannot delete expired idempotency slots; trying again",
    );
    if (count !== sweepRows || this.#isClosed) return;
    this.#sweepAgain = this.#clock.after(sweepAgainMs, () => void this.#sweep());
  }

  async #orElse<T>(work: () => Promise<T>, otherwise: T, complaint: string): Promise<T> {
    try {
      return await work();
    } catch (error) {
      this.#log.error({ err: error }, complaint);
      return otherwise;
    }
  }
}
