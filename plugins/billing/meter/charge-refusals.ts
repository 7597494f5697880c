/** What all exchanges of one `meter` step share: where they are charged, and what shadow mode makes of a refusal. */
import {
  refuse,
  type Counter,
  type CuRefusal,
  type Exchange,
  type Host,
  type LimitReached,
  type Meter,
  type Reply,
  type Reservation,
} from "sluice-gateway/plugin";

/** The journal cannot be written: nothing is served unmetered. */
export const unavailable = refuse("GATEWAY_SERVICE_UNAVAILABLE");

const scopes = ["plan", "30d", "24h", "unavailable", "anonymous"] as const;
type Scope = (typeof scopes)[number];
type Refused = CuRefusal | { readonly kind: "unavailable" | "anonymous" };

/** Used where nobody can be charged and nothing may be refused: it has room for every charge, and makes none. */
const free: Reservation = {
  kind: "reserved",
  costMilli: Number.MAX_SAFE_INTEGER,
  settle: () => Promise.resolve(),
  release() {},
};

export class ChargeRefusals {
  readonly meter: Meter;
  readonly #host: Host;
  readonly #shadowRefusals = new Map<Scope, Counter>();
  /** Commits that never came to the disk. */
  readonly #lost = new WeakSet<Promise<void>>();
  #commit: Promise<void> | undefined;
  #reply: Promise<Reply | undefined> | undefined;

  constructor(host: Host) {
    this.meter = host.meter;
    this.#host = host;
    const refusals = host.metrics.counter(
      "sluice_meter_shadow_refusals_total",
      "Requests that `meter` in shadow mode would have refused, by limit.",
      ["scope"],
    );
    for (const scope of scopes) this.#shadowRefusals.set(scope, refusals.with({ scope }));
  }

  /** What to send instead of the answer once it is known whether `commit` is on disk: nothing, or 503. */
  replyAfter(commit: Promise<void>, x: Exchange): Promise<Reply | undefined> {
    // The charges of one fsync share a promise, and so its translation.
    if (commit !== this.#commit || this.#reply === undefined) {
      this.#commit = commit;
      this.#reply = commit.then(
        () => undefined,
        (error: unknown) => {
          this.#lost.add(commit);
          if (error instanceof RangeError) return this.#wrong(error, x);
          if (this.#host.mode === "enforce") return unavailable;
          this.#count("unavailable", x);
          return undefined;
        },
      );
    }
    return this.#reply;
  }

  /** The surface's own bug. */
  #wrong(error: RangeError, x: Exchange): Reply {
    const { path, surface } = x.route;
    this.#host.log.error({ err: error, route: path, surface }, "a charge cannot be made");
    return refuse("GATEWAY_INTERNAL_ERROR");
  }

  /** Whether it is known that these charges will never be on disk. */
  isLost(commit: Promise<void>): boolean {
    return this.#lost.has(commit);
  }

  /** The refusal itself; in shadow mode a count, a line in the log, and a reservation that costs nothing. */
  refused<R extends Refused>(refusal: R, x: Exchange): R | Reservation {
    if (this.#host.mode === "enforce") {
      if (refusal.kind === "refused") x.limitReached(reachedBy(refusal));
      return refusal;
    }
    this.#count(refusal.kind === "refused" ? (refusal.window ?? "plan") : refusal.kind, x);
    return free;
  }

  #count(scope: Scope, x: Exchange): void {
    this.#shadowRefusals.get(scope)?.add(1);
    this.#host.log.info({ route: x.route.path, scope }, "shadow: meter would have refused");
  }
}

function reachedBy({ window, usedCuMilli, limitCuMilli }: CuRefusal): LimitReached {
  return { scope: window ?? "plan", unit: "milli-CU", used: usedCuMilli, limit: limitCuMilli };
}
