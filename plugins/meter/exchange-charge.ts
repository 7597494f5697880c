/** The account of one exchange: what the slot `charge` holds. */
import {
  refuse,
  type Charge,
  type ChargeLine,
  type Counter,
  type CuRefusal,
  type Exchange,
  type Host,
  type Reply,
  type Reservation,
} from "sluice-gateway/plugin";

/** The journal cannot be written: nothing is served unmetered. */
const unavailable = refuse("GATEWAY_SERVICE_UNAVAILABLE");
/** Reached only where `authorize` is missing or in shadow mode: nobody is there to pay. */
const nobody = refuse("GATEWAY_UNAUTHORIZED");

type Scope = "plan" | "30d" | "24h" | "unavailable" | "anonymous";

/** What the charges of one `meter` step share. */
export class Till {
  readonly host: Host;
  readonly #shadowRefusals = new Map<Scope, Counter>();
  #commit: Promise<void> | undefined;
  #reply: Promise<Reply | undefined> | undefined;

  constructor(host: Host) {
    this.host = host;
    const refusals = host.metrics.counter(
      "sluice_meter_shadow_refusals_total",
      "What meter in shadow mode would have refused, by the limit that was reached.",
      ["scope"],
    );
    for (const scope of ["plan", "30d", "24h", "unavailable", "anonymous"] as const) {
      this.#shadowRefusals.set(scope, refusals.with({ scope }));
    }
  }

  /** What to send instead of the answer once it is known whether `commit` is on disk: nothing, or 503. */
  replyAfter(commit: Promise<void>, x: Exchange): Promise<Reply | undefined> {
    // The charges of one fsync share a promise, and so its translation.
    if (commit !== this.#commit || this.#reply === undefined) {
      this.#commit = commit;
      this.#reply = commit.then(
        () => undefined,
        () => this.refuse(unavailable, "unavailable", x),
      );
    }
    return this.#reply;
  }

  /** The reply for clients; in shadow mode none, but a count and a line in the log. */
  refuse(reply: Reply, scope: Scope, x: Exchange): Reply | undefined {
    if (this.host.mode === "enforce") return reply;
    this.#shadowRefusals.get(scope)?.add(1);
    this.host.log.info({ route: x.route.path, scope }, "shadow: meter would have refused");
    return undefined;
  }
}

export class ExchangeCharge implements Charge {
  usedMilli: number | undefined = undefined;
  journalled: Promise<Reply | undefined> | undefined = undefined;
  readonly #till: Till;
  readonly #x: Exchange;
  /** The first reservation takes the charge, the others only hold credit until then. */
  #reservation: Reservation | undefined;
  #more: Reservation[] | undefined;
  #commit: Promise<void> | undefined;
  /** The journal failed in a way that the surface was not told. */
  #failed: Reply | undefined;

  constructor(till: Till, x: Exchange) {
    this.#till = till;
    this.#x = x;
  }

  reserve(costMilli: number, options?: { readonly streamed?: boolean }): Reply | undefined {
    const x = this.#x;
    const principal = x.get("principal");
    if (principal.kind === "anonymous") return this.#till.refuse(nobody, "anonymous", x);
    const streamed = options?.streamed;
    const requestId = x.peek("requestId") ?? "";
    const about = { requestId, surface: x.route.surface, streamed };
    const { meter } = this.#till.host;
    let taken = meter.reserve(principal, costMilli, about);
    if (taken.kind === "refused") {
      const reply = this.#till.refuse(refusalReply(taken), taken.window ?? "plan", x);
      if (reply !== undefined) return reply;
      taken = meter.reserve(principal, costMilli, { ...about, force: true });
    }
    if (taken.kind !== "reserved") return this.#till.refuse(unavailable, "unavailable", x);
    this.#keep(taken);
    return undefined;
  }

  #keep(reservation: Reservation): void {
    if (this.#reservation === undefined) this.#reservation = reservation;
    else (this.#more ??= []).push(reservation);
    if (reservation.journalled === undefined) return;
    const earlier = this.journalled;
    const written = this.#till.replyAfter(reservation.journalled, this.#x);
    this.journalled = earlier === undefined ? written : earlier.then((reply) => reply ?? written);
  }

  settle(lines: readonly Omit<ChargeLine, "surface">[]): void {
    if (this.usedMilli !== undefined) throw new Error("an exchange is settled once");
    let total = 0;
    for (const line of lines) total += line.costMilli;
    // What nobody reserved is charged all the same: the work is done.
    if (this.#reservation === undefined) this.#failed = this.reserve(0);
    if (this.#reservation === undefined) return;
    const { surface } = this.#x.route;
    this.#commit = this.#reservation.settle(lines.map((line) => withSurface(line, surface)));
    // Awaited by `written`, which does not run when the client has left.
    this.#commit.catch(() => {});
    this.usedMilli = total;
    this.release();
  }

  /** Before the head of a streamed answer: no byte leaves while the intent is not on disk. */
  untilJournalled(): Promise<void> | undefined {
    return this.journalled?.then((refusal) => {
      // A surface that did not ask cannot be stopped here; the end of its answer can.
      this.#failed ??= refusal;
    });
  }

  /** Before the last byte: waits until the charge is on disk; a Reply when it is not. */
  written(): Promise<Reply | undefined> | Reply | undefined {
    if (this.#failed !== undefined) return this.#failed;
    if (this.#commit === undefined) return undefined;
    return this.#till.replyAfter(this.#commit, this.#x);
  }

  /** Gives back whatever was not charged. */
  release(): void {
    this.#reservation?.release();
    if (this.#more === undefined) return;
    for (const reservation of this.#more) reservation.release();
  }
}

function withSurface(line: Omit<ChargeLine, "surface">, surface: string): ChargeLine {
  return { ...line, surface };
}

/** decisions.md section 3: `window` is absent where the plan refuses. */
function refusalReply({ window, usedCuMilli, limitCuMilli }: CuRefusal): Reply {
  return refuse("GATEWAY_CU_LIMIT_EXCEEDED", {
    details: {
      ...(window !== undefined && { window }),
      used_cu_milli: usedCuMilli,
      limit_cu_milli: limitCuMilli,
    },
  });
}
