import type { FastifyRequest } from "fastify";
import { addressKey } from "sluice-gateway/internal/http";
import { createAttemptLimiter, type AttemptLimiter } from "sluice-gateway/internal/limits";
import type { Counter, GatewayCode, Host } from "sluice-gateway/plugin";
import { addressOf } from "./request-address.ts";
import { rejection } from "./rates.ts";

/** Maximum number of attempts per address and minute, including successful ones. */
const maxAttempts = 10;

export type SignInBy = "key" | "oidc";

export interface Refused {
  readonly by: SignInBy;
  readonly code: GatewayCode;
  readonly facts?: Readonly<Record<string, unknown>>;
}

export interface Attempts {
  /** Resolves with the seconds to wait if the attempt is refused, which is counted, and logged once per minute. */
  limit(request: FastifyRequest, by: SignInBy): Promise<number | undefined>;
  /**
   * Does the same for answers of the provider that do not belong to a sign-in of the browser. They have a separate
   * limit, because any page can make a browser request that address.
   */
  limitStray(request: FastifyRequest): Promise<number | undefined>;
  refused(request: FastifyRequest, refused: Refused): void;
}

export function createAttempts(
  { store: { redis }, log, metrics }: Pick<Host, "store" | "log" | "metrics">,
  keep: (name: string, make: () => AttemptLimiter) => AttemptLimiter,
): Attempts {
  const limiterOf = (name: string): AttemptLimiter =>
    createAttemptLimiter(redis, { name, attempts: maxAttempts, windowSeconds: 60 });
  const attempts = keep("attempts to sign in", () => limiterOf("sign-in"));
  const stray = keep("answers without a sign-in", () => limiterOf("sign-in-answer"));
  const counters = metrics.counter(
    "sluice_dashboard_sign_ins_refused_total",
    "Sign-ins to the dashboard that were refused: with a key or at the OpenID provider, by error code.",
    ["by", "code"],
  );
  const counterOf = (by: SignInBy, code: GatewayCode): Counter => counters.with({ by, code });

  const limit = async (
    limiter: AttemptLimiter,
    request: FastifyRequest,
    by: SignInBy,
  ): Promise<number | undefined> => {
    const address = addressOf(request);
    const rejected = await rejection(limiter, addressKey(address));
    if (rejected === undefined) return undefined;
    const code = "GATEWAY_RATE_LIMITED";
    counterOf(by, code).add(1);
    if (rejected.consumedPoints === maxAttempts + 1) {
      log.warn(
        { address, by, code, requestId: request.id },
        "dashboard: too many attempts to sign in",
      );
    }
    return Math.ceil(rejected.msBeforeNext / 1000);
  };
  return {
    limit: (request, by) => limit(attempts, request, by),
    limitStray: (request) => limit(stray, request, "oidc"),
    refused(request, { by, code, facts }) {
      counterOf(by, code).add(1);
      const address = addressOf(request);
      log.warn({ address, ...facts, requestId: request.id }, "dashboard: sign-in refused");
    },
  };
}
