/**
 * Turns refused reservations and failed charges into replies, or counts them in shadow mode. All exchanges of one
 * `meter` step share one object.
 */
import {
  refuse,
  type Counter,
  type Exchange,
  type Host,
  type LimitReached,
  type Reply,
} from "sluice-gateway/plugin";
import type { CuRefusal, Meter, Reservation } from "sluice-gateway/services";

/** Sent while the journal cannot be written, because no request is served unmetered. */
export const unavailable = refuse("GATEWAY_SERVICE_UNAVAILABLE");

const scopes = ["plan", "30d", "24h", "unavailable", "anonymous"] as const;
type Scope = (typeof scopes)[number];
type Refused = CuRefusal | { readonly kind: "unavailable" | "anonymous" };

/** Reservation for a request that can neither be charged nor refused. It accepts every charge and makes none. */
const freeReservation: Reservation = {
  kind: "reserved",
  costMilli: Number.MAX_SAFE_INTEGER,
  settle: () => Promise.resolve(),
  release() {},
};

export class ChargeRefusals {
  readonly meter: Meter;
  readonly #host: Host;
  readonly #shadowRefusals = new Map<Scope, Counter>();
  /** Commits that could not be written. */
  readonly #lost = new WeakSet<Promise<void>>();
  #commit: Promise<void> | undefined;
  #reply: Promise<Reply | undefined> | undefined;

  constructor(host: Host) {
    this.meter = host.use("metering");
    this.#host = host;
    const refusals = host.metrics.counter(
      "sluice_meter_shadow_refusals_total",
      "Requests that `meter` in shadow mode would have refused, by limit.",
      ["scope"],
    );
    for (const scope of scopes) this.#shadowRefusals.set(scope, refusals.with({ scope }));
  }

  /**
   * Resolves, when the result of `commit` is known, to undefined or to the reply to send instead of the answer (503).
   */
  replyAfter(commit: Promise<void>, x: Exchange): Promise<Reply | undefined> {
    // The charges of one fsync share one promise, and so they share its reply.
    if (commit !== this.#commit || this.#reply === undefined) {
      this.#commit = commit;
      this.#reply = commit.then(
        () => undefined,
        (error: unknown) => {
          this.#lost.add(commit);
          if (error instanceof RangeError) return this.#invalidCharge(error, x);
          if (this.#host.mode === "enforce") return unavailable;
          this.#count("unavailable", x);
          return undefined;
        },
      );
    }
    return this.#reply;
  }

  /** Replies to an invalid charge, which is a bug of the surface. */
  #invalidCharge(error: RangeError, x: Exchange): Reply {
    const { path, surface } = x.route;
    this.#host.log.error({ err: error, route: path, surface }, "a charge cannot be made");
    return refuse("GATEWAY_INTERNAL_ERROR");
  }

  /** Returns true if these charges are known to have failed and will never be on disk. */
  isLost(commit: Promise<void>): boolean {
    return this.#lost.has(commit);
  }

  /**
   * Returns the refusal. In shadow mode it counts and logs the refusal, and returns a reservation that costs nothing.
   */
  refusalOrShadow<R extends Refused>(refusal: R, x: Exchange): R | Reservation {
    if (this.#host.mode === "enforce") {
      if (refusal.kind === "refused") x.limitReached(this.#reachedBy(refusal, x));
      return refusal;
    }
    this.#count(refusal.kind === "refused" ? (refusal.window ?? "plan") : refusal.kind, x);
    return freeReservation;
  }

  /** The time when the limit clears is computed when it is asked for, because it changes with every charge. */
  #reachedBy({ window, usedCuMilli, limitCuMilli }: CuRefusal, x: Exchange): LimitReached {
    const scope = window ?? "plan";
    const limit = { scope, unit: "milli-CU", used: usedCuMilli, limit: limitCuMilli } as const;
    const principal = x.get("principal");
    if (principal.kind === "anonymous") return limit;
    const { meter } = this;
    const { key } = principal;
    const refusedAt = x.arrivedAt;
    return { ...limit, clearsAt: () => meter.clearsAt(key, scope, refusedAt) };
  }

  #count(scope: Scope, x: Exchange): void {
    this.#shadowRefusals.get(scope)?.add(1);
    this.#host.log.info({ route: x.route.path, scope }, "shadow: meter would have refused");
  }
}
