/** Reserves credit for the exchanges of one `meter` step, in the step's mode. */
import {
  refuse,
  type Exchange,
  type Host,
  type LimitReached,
  type Reply,
} from "sluice-gateway/plugin";
import type { CuRefusal, KeyPrincipal, Meter, Reservation } from "sluice-gateway/services";
import type { CountShadowRefusal } from "./shadow-refusals.ts";

/** `anonymous`: nobody can be charged, because `authorize` is missing before this step or is in shadow mode. */
export type Refusal = CuRefusal | { readonly kind: "unavailable" | "anonymous" };

interface ReserveOptions {
  readonly streamed?: boolean | undefined;
  /** Default: the principal of the exchange. */
  readonly principal?: KeyPrincipal | undefined;
  /** Ignores the limits. */
  readonly force?: boolean;
}

/** In shadow mode the result is always a reservation. */
export type Reserve = (
  x: Exchange,
  costMilliCu: number,
  options?: ReserveOptions,
) => Reservation | Refusal;

const unauthorized = refuse("GATEWAY_UNAUTHORIZED");
/** Sent while the journal cannot be written, because no request is served unmetered. */
export const unavailable = refuse("GATEWAY_SERVICE_UNAVAILABLE");

/** Reservation for a request that can neither be charged nor refused. It accepts every charge and makes none. */
const freeReservation: Reservation = {
  kind: "reserved",
  costMilliCu: Number.MAX_SAFE_INTEGER,
  settle: () => Promise.resolve(),
  release() {},
};

export function createReserve(host: Host, countShadowRefusal: CountShadowRefusal): Reserve {
  const meter: Meter = host.use("metering");

  /** Returns the refusal, or in shadow mode counts it and returns a reservation that costs nothing. */
  const refuseOrShadow = (refusal: Refusal, x: Exchange): Reservation | Refusal => {
    if (host.mode !== "enforce") {
      countShadowRefusal(refusal.kind === "refused" ? (refusal.window ?? "plan") : refusal.kind, x);
      return freeReservation;
    }
    if (refusal.kind === "refused") x.limitReached(limitReached(meter, refusal, x));
    return refusal;
  };

  return (x, costMilliCu, { streamed, principal: payer, force } = {}) => {
    const principal = payer ?? x.get("principal");
    if (principal.kind === "anonymous") return refuseOrShadow({ kind: "anonymous" }, x);
    const about = {
      requestId: x.peek("requestId") ?? "",
      surface: x.route.surface,
      agent: x.peek("agent"),
      streamed,
      ...(force === true && { force }),
    };
    const taken = meter.reserve(principal, costMilliCu, about);
    if (taken.kind === "reserved") return taken;
    const instead = refuseOrShadow(taken, x);
    if (instead.kind !== "reserved" || taken.kind !== "refused") return instead;
    // The request passes in shadow mode, and it is charged.
    const forced = meter.reserve(principal, costMilliCu, { ...about, force: true });
    return forced.kind === "reserved" ? forced : refuseOrShadow(forced, x);
  };
}

/** The time when the limit clears is computed when it is asked for, because it changes with every charge. */
function limitReached(
  meter: Meter,
  { window, usedMilliCu, limitMilliCu }: CuRefusal,
  x: Exchange,
): LimitReached {
  const scope = window ?? "plan";
  const limit = { scope, unit: "milli-CU", used: usedMilliCu, limit: limitMilliCu } as const;
  const principal = x.get("principal");
  if (principal.kind === "anonymous") return limit;
  const { key } = principal;
  const refusedAt = x.arrivedAt;
  return { ...limit, clearsAt: () => meter.clearsAt(key, scope, refusedAt) };
}

/** Returns the reply to a refusal. It has no `window` if the limit is that of the plan (decisions.md section 3). */
export function replyTo(refusal: Refusal): Reply {
  if (refusal.kind !== "refused") {
    return refusal.kind === "anonymous" ? unauthorized : unavailable;
  }
  const { window, usedMilliCu, limitMilliCu } = refusal;
  return refuse("GATEWAY_CU_LIMIT_EXCEEDED", {
    details: {
      ...(window !== undefined && { window }),
      used_cu_milli: usedMilliCu,
      limit_cu_milli: limitMilliCu,
    },
  });
}
