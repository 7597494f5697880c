import {
  refuse,
  type Awaitable,
  type Exchange,
  type Host,
  type LimitReached,
  type Reply,
} from "sluice-gateway/plugin";
import type {
  CuRefusal,
  KeyPrincipal,
  Meter,
  MeterUnavailable,
  Reservation,
  ReservedFor,
} from "sluice-gateway/services";
import { andThen } from "sluice-gateway/internal/toolkit";

/** `anonymous`: no caller can be charged, because `authorize` is missing before this step or is in shadow mode. */
export type Refusal = CuRefusal | MeterUnavailable | { readonly kind: "anonymous" };

interface ReserveOptions {
  readonly streamed?: boolean | undefined;
  /** Default: the principal of the exchange. */
  readonly principal?: KeyPrincipal | undefined;
}

/** Reserves credit. In shadow mode the results are always reservations. */
export interface Reserver {
  reserve(
    x: Exchange,
    costMilliCu: number,
    options?: ReserveOptions,
  ): Awaitable<Reservation | Refusal>;
  /** Reserves credit for work that has already been done. The result is never a refusal by a limit. */
  reserveWithoutLimit(x: Exchange, costMilliCu: number): Reservation | Refusal;
}

const unauthorized = refuse("GATEWAY_UNAUTHORIZED");
/** Sent while the journal cannot be written, because no request is served unmetered. */
export const unavailable = refuse("GATEWAY_SERVICE_UNAVAILABLE");

/** Reservation for a request that can neither be charged nor refused. It accepts every charge and records none. */
const freeReservation: Reservation = {
  kind: "reserved",
  costMilliCu: Number.MAX_SAFE_INTEGER,
  settle: () => Promise.resolve(),
  release() {},
};

export function createReserver(host: Host, countShadowRefusal: CountShadowRefusal): Reserver {
  const meter: Meter = host.use("metering");

  const countRefusal = (refusal: Refusal, x: Exchange): void =>
    countShadowRefusal(refusal.kind === "refused" ? (refusal.window ?? "plan") : refusal.kind, x);

  const refuseOrShadow = (refusal: Refusal, x: Exchange): Reservation | Refusal => {
    if (host.mode !== "enforce") {
      countRefusal(refusal, x);
      return freeReservation;
    }
    if (refusal.kind === "refused") x.limitReached(limitReached(refusal));
    if (refusal.kind === "unavailable") x.note("store", refusal.reason);
    return refusal;
  };

  return {
    reserve(x, costMilliCu, { streamed, principal: payer } = {}) {
      const principal = payer ?? x.get("principal");
      if (principal.kind === "anonymous") return refuseOrShadow({ kind: "anonymous" }, x);
      const about = requestOf(x, streamed);
      const reserving = meter.reserve(principal, costMilliCu, about);
      if (host.mode !== "enforce" && reserving instanceof Promise) {
        // Other gateways may hold the credit. The request does not wait for it: the result is only counted.
        void reserving
          .catch((): MeterUnavailable => ({ kind: "unavailable" }))
          .then((taken) => (taken.kind === "reserved" ? taken.release() : countRefusal(taken, x)));
        const forced = meter.reserveWithoutLimit(principal, costMilliCu, about);
        return forced.kind === "reserved" ? forced : freeReservation;
      }
      return andThen(reserving, (taken) => {
        if (taken.kind === "reserved") return taken;
        const instead = refuseOrShadow(taken, x);
        if (instead.kind !== "reserved" || taken.kind !== "refused") return instead;
        // In shadow mode the request is allowed, and it is charged.
        const forced = meter.reserveWithoutLimit(principal, costMilliCu, about);
        return forced.kind === "reserved" ? forced : refuseOrShadow(forced, x);
      });
    },
    reserveWithoutLimit(x, costMilliCu) {
      const principal = x.get("principal");
      if (principal.kind === "anonymous") return refuseOrShadow({ kind: "anonymous" }, x);
      const taken = meter.reserveWithoutLimit(principal, costMilliCu, requestOf(x));
      return taken.kind === "reserved" ? taken : refuseOrShadow(taken, x);
    },
  };
}

function requestOf(x: Exchange, streamed?: boolean): ReservedFor {
  const requestId = x.peek("requestId") ?? "";
  const { surface, path } = x.route;
  return { requestId, surface, route: path, agent: x.peek("agent"), streamed };
}

function limitReached({ window, usedMilliCu, limitMilliCu, clearsAt }: CuRefusal): LimitReached {
  return {
    scope: window ?? "plan",
    unit: "milli-CU",
    used: usedMilliCu,
    limit: limitMilliCu,
    ...(clearsAt !== undefined && { clearsAt }),
  };
}

/** The reply has no `window` if the limit is that of the plan (decisions.md section 3). */
export function replyTo(refusal: Refusal): Reply {
  if (refusal.kind !== "refused") {
    return refusal.kind === "anonymous" ? unauthorized : unavailable;
  }
  const { window, usedMilliCu, limitMilliCu } = refusal;
  const refused = refuse("GATEWAY_CU_LIMIT_EXCEEDED", {
    details: {
      ...(window !== undefined && { window }),
      used_cu_milli: usedMilliCu,
      limit_cu_milli: limitMilliCu,
    },
  });
  // Surfaces with errors of their own name the time at which the limit has room again.
  return { ...refused, reached: limitReached(refusal) };
}

const scopes = ["plan", "30d", "24h", "unavailable", "anonymous"] as const;
export type ShadowScope = (typeof scopes)[number];
export type CountShadowRefusal = (scope: ShadowScope, x: Exchange) => void;

export function createShadowRefusals({ metrics, log }: Host): CountShadowRefusal {
  const refusals = metrics.counter(
    "sluice_meter_shadow_refusals_total",
    "Requests that `meter` in shadow mode would have refused, by limit.",
    ["scope"],
  );
  // All of them are shown from the beginning.
  for (const scope of scopes) refusals.with({ scope });
  return (scope, x) => {
    refusals.with({ scope }).add(1);
    log.info({ route: x.route.path, scope }, "shadow: meter would have refused");
  };
}
