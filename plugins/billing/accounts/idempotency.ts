/**
 * `idempotency` of the service `accounts`. The slots are in the accounts database, so that a change there and its slot can be
 * one transaction.
 */
import { randomUUID } from "node:crypto";
import type { DatabaseSync } from "node:sqlite";
import type { Clock, Log } from "sluice-gateway/plugin";
import type {
  Idempotency,
  IdempotencySlot,
  IdempotentRequest,
  WorkEnd,
} from "sluice-gateway/services";
import { transaction } from "sluice-gateway/store";
import type { AccountsService } from "./accounts.ts";
import { findSlot, forget, putInFlight, putResponse } from "./idempotency-slots.ts";

export interface IdempotencyDeps {
  readonly accounts: Pick<AccountsService, "write">;
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
  readonly #accounts: IdempotencyDeps["accounts"];
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #timers: readonly Disposable[];
  #sweepAgain: Disposable | undefined;
  /** Owners of the slots whose leases must be renewed. */
  readonly #held = new Set<string>();

  constructor({ accounts, clock, log }: IdempotencyDeps) {
    this.#accounts = accounts;
    this.#clock = clock;
    this.#log = log;
    this.#timers = [
      clock.every(renewMs, () => this.#renew()),
      clock.every(sweepMs, () => this.#sweep()),
    ];
  }

  take(request: IdempotentRequest): ReturnType<Idempotency["take"]> {
    const owner = randomUUID();
    const taken = this.#write("an idempotency slot could not be taken", (db) => {
      const now = this.#clock.now();
      const found = findSlot(db, request, now);
      if (found !== undefined) return found;
      putInFlight(db, request, owner, now + leaseMs);
      return { kind: "taken", slot: this.#slot(owner) } as const;
    });
    if (taken?.kind === "taken") this.#held.add(owner);
    return taken ?? unavailable;
  }

  once(request: IdempotentRequest, work: () => WorkEnd): ReturnType<Idempotency["once"]> {
    let threw: { readonly error: unknown } | undefined;
    let isUndone = false;
    try {
      return this.#accounts.write((db) =>
        transaction(db, () => {
          const now = this.#clock.now();
          const found = findSlot(db, request, now);
          if (found !== undefined) return found;
          let end: WorkEnd;
          try {
            end = work();
          } catch (error) {
            threw = { error };
            throw error;
          }
          isUndone = end === "undo";
          if (end === "undo") throw new Error("the handler rolled the request back");
          // On a full disk SQLite rolls back by itself. A later write would then not be part of the transaction.
          if (!db.isTransaction) throw new Error("SQLite rolled the transaction back");
          if (end === "release") forget(db, request);
          else putResponse(db, request, end, now + keptMs);
          return ran;
        }),
      );
    } catch (error) {
      if (threw !== undefined) throw threw.error;
      if (isUndone) return ran;
      this.#log.error({ err: error }, "a request with an idempotency key was rolled back");
      return unavailable;
    }
  }

  close(): void {
    for (const timer of this.#timers) timer[Symbol.dispose]();
    this.#sweepAgain?.[Symbol.dispose]();
  }

  #slot(owner: string): IdempotencySlot {
    return {
      store: ({ status, contentType, contentEncoding, body }) => {
        this.#held.delete(owner);
        const until = this.#clock.now() + keptMs;
        const changed = this.#write(
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
        return changed?.changes === 1;
      },
      release: () => {
        this.#held.delete(owner);
        this.#write("cannot release an idempotency slot; it expires with its lease", (db) =>
          db.prepare("DELETE FROM idempotency_slots WHERE owner = ?").run(owner),
        );
      },
    };
  }

  #renew(): void {
    if (this.#held.size === 0) return;
    const until = this.#clock.now() + leaseMs;
    this.#write("cannot renew the leases of idempotency slots", (db) => {
      const renew = db.prepare("UPDATE idempotency_slots SET until = ? WHERE owner = ?");
      for (const owner of this.#held) renew.run(until, owner);
    });
  }

  #sweep(): void {
    this.#sweepAgain?.[Symbol.dispose]();
    this.#sweepAgain = undefined;
    const swept = this.#write("cannot delete expired idempotency slots; trying again", (db) =>
      db
        .prepare(
          `DELETE FROM idempotency_slots WHERE rowid IN
             (SELECT rowid FROM idempotency_slots WHERE until <= ? LIMIT ?)`,
        )
        .run(this.#clock.now(), sweepRows),
    );
    if (swept?.changes !== sweepRows) return;
    this.#sweepAgain = this.#clock.after(sweepAgainMs, () => this.#sweep());
  }

  /** Runs `work` in a transaction. Logs `complaint` and returns undefined if the store cannot be written. */
  #write<T>(complaint: string, work: (db: DatabaseSync) => T): T | undefined {
    try {
      return this.#accounts.write((db) => transaction(db, () => work(db)));
    } catch (error) {
      this.#log.error({ err: error }, complaint);
      return undefined;
    }
  }
}
