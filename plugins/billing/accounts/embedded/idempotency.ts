/**
 * `idempotency` of the service `accounts`. The slots are in the accounts database, so that a change there and its slot can be
 * one transaction.
 */
import { randomUUID } from "node:crypto";
import type { DatabaseSync } from "node:sqlite";
import type { Awaitable, Clock, Log } from "sluice-gateway/plugin";
import type {
  Idempotency,
  IdempotencySlot,
  IdempotentRequest,
  NotRun,
  WorkEnd,
} from "sluice-gateway/services";
import { andThen, orElse } from "sluice-gateway/toolkit";
import type { EmbeddedAccountStore } from "./embedded-account-store.ts";
import { findSlot, forget, putInFlight, putResponse } from "./idempotency-slots.ts";

export interface IdempotencyDeps {
  readonly store: Pick<EmbeddedAccountStore, "write" | "transaction">;
  readonly clock: Clock;
  readonly log: Log;
}

export interface IdempotencyService extends Idempotency {
  /** Ends the timers. Slots that are still held end with their lease. */
  close(): void;
}

/** gateway.md, "Idempotency": the replay window. */
const keptMs = 24 * 3_600_000;
/** decisions.md section 11. */
const leaseMs = 60_000;
/** Two renewals may fail before a lease ends. */
const renewMs = 20_000;
const sweepMs = 60_000;
/** Maximum number of slots deleted per write, because a write blocks the event loop. The rest is deleted soon after. */
const sweepRows = 200;
const sweepAgainMs = 250;

const ran = { kind: "ran" } as const;
const unavailable = { kind: "unavailable" } as const;

export function openIdempotency(parts: IdempotencyDeps): IdempotencyService {
  return new IdempotencySlots(parts);
}

class IdempotencySlots implements IdempotencyService {
  readonly #store: IdempotencyDeps["store"];
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #timers: readonly Disposable[];
  #sweepAgain: Disposable | undefined;
  #isClosed = false;
  /** Owners of the slots whose leases must be renewed. */
  readonly #held = new Set<string>();

  constructor({ store, clock, log }: IdempotencyDeps) {
    this.#store = store;
    this.#clock = clock;
    this.#log = log;
    this.#timers = [
      clock.every(renewMs, () => this.#renew()),
      clock.every(sweepMs, () => this.#sweep()),
    ];
  }

  take(request: IdempotentRequest): ReturnType<Idempotency["take"]> {
    const owner = randomUUID();
    const answered = this.#write("an idempotency slot could not be taken", (db) => {
      const now = this.#clock.now();
      const found = findSlot(db, request, now);
      if (found !== undefined) return found;
      putInFlight(db, request, owner, now + leaseMs);
      return { kind: "taken", slot: this.#slot(owner) } as const;
    });
    return andThen(answered, (taken) => {
      if (taken?.kind === "taken") this.#held.add(owner);
      return taken ?? unavailable;
    });
  }

  once(
    request: IdempotentRequest,
    work: () => Awaitable<WorkEnd>,
  ): ReturnType<Idempotency["once"]> {
    let threw: { readonly error: unknown } | undefined;
    let isUndone = false;
    const attempt = (): Awaitable<typeof ran | NotRun> => {
      const now = this.#clock.now();
      return andThen(
        this.#store.write((db) => findSlot(db, request, now)),
        (found): Awaitable<typeof ran | NotRun> => {
          if (found !== undefined) return found;
          const worked = orElse(work, (error): never => {
            threw = { error };
            throw error;
          });
          return andThen(worked, (end) => {
            isUndone = end === "undo";
            if (end === "undo") throw new Error("the handler rolled the request back");
            const stored = this.#store.write((db) => {
              if (end === "release") forget(db, request);
              else putResponse(db, request, end, now + keptMs);
            });
            return andThen(stored, () => ran);
          });
        },
      );
    };
    return orElse<typeof ran | NotRun>(
      () => this.#store.transaction(attempt),
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
      store: ({ status, contentType, contentEncoding, body }) => {
        this.#held.delete(owner);
        const until = this.#clock.now() + keptMs;
        const written = this.#write(
          "cannot store the response of a request with an idempotency key",
          (db) =>
            db
              .prepare(
                `UPDATE idempotency_slots
               SET owner = NULL, until = ?, status = ?, content_type = ?, content_encoding = ?, body = ?
               WHERE owner = ?`,
              )
              .run(until, status, contentType ?? null, contentEncoding ?? null, body, owner),
        );
        return andThen(written, (result) => result?.changes === 1);
      },
      release: () => {
        this.#held.delete(owner);
        const released = this.#write(
          "cannot release an idempotency slot; it expires with its lease",
          (db) => db.prepare("DELETE FROM idempotency_slots WHERE owner = ?").run(owner),
        );
        return andThen(released, () => undefined);
      },
    };
  }

  #renew(): void {
    if (this.#held.size === 0) return;
    const until = this.#clock.now() + leaseMs;
    void this.#write("cannot renew the leases of idempotency slots", (db) => {
      const renew = db.prepare("UPDATE idempotency_slots SET until = ? WHERE owner = ?");
      for (const owner of this.#held) renew.run(until, owner);
    });
  }

  #sweep(): void {
    this.#sweepAgain?.[Symbol.dispose]();
    this.#sweepAgain = undefined;
    const deleted = this.#write("cannot delete expired idempotency slots; trying again", (db) =>
      db
        .prepare(
          `DELETE FROM idempotency_slots WHERE rowid IN
             (SELECT rowid FROM idempotency_slots WHERE until <= ? LIMIT ?)`,
        )
        .run(this.#clock.now(), sweepRows),
    );
    void andThen(deleted, (result) => {
      if (result?.changes !== sweepRows || this.#isClosed) return;
      this.#sweepAgain = this.#clock.after(sweepAgainMs, () => this.#sweep());
    });
  }

  /** Runs `work` in a transaction. Logs `complaint` and returns undefined if the store cannot be written. */
  #write<T>(complaint: string, work: (db: DatabaseSync) => T): Awaitable<T | undefined> {
    return orElse<T | undefined>(
      () => this.#store.write(work),
      (error) => {
        this.#log.error({ err: error }, complaint);
        return undefined;
      },
    );
  }
}
