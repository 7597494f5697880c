/** Identifies the caller. `authorize` refuses invalid keys; this step refuses only addresses that try many keys. */
import { createAttemptLimiter, createSharedAttemptLimiter } from "sluice-gateway/internal/limits";
import {
  defineStep,
  refuse,
  type Awaitable,
  type Exchange,
  type Reply,
} from "sluice-gateway/plugin";
import { setPrincipal, type Principal } from "sluice-gateway/services";
import { andThen } from "sluice-gateway/internal/toolkit";
import { credentialIn, identify, ambiguous, keyHeaders } from "./credentials.ts";
import { FailedKeys } from "./failed-keys.ts";

interface Options {
  readonly headers: readonly (typeof keyHeaders)[number][];
  readonly failures: number;
  readonly windowSeconds: number;
  readonly blockSeconds: number;
  readonly ipv6Prefix: number;
}

export default defineStep<Options>({
  name: "authenticate",
  description:
    "Identifies the caller by the Authorization header; blocks addresses after many wrong keys.",
  options: {
    type: "object",
    properties: {
      headers: {
        description:
          "Headers in which a key can be sent besides Authorization. A request with different keys is refused.",
        type: "array",
        items: { enum: [...keyHeaders] },
        uniqueItems: true,
        default: [],
      },
      failures: {
        description:
          "Maximum number of 401 responses for unknown keys per address and window; 0 disables blocking.",
        type: "integer",
        minimum: 0,
        default: 100,
      },
      windowSeconds: {
        description: "Length of the window in seconds.",
        type: "integer",
        minimum: 1,
        default: 60,
      },
      blockSeconds: {
        description: "Number of seconds for which an address is blocked.",
        type: "integer",
        minimum: 1,
        default: 60,
      },
      ipv6Prefix: {
        description: "Number of leading bits of an IPv6 address that count as one address.",
        type: "integer",
        minimum: 16,
        maximum: 128,
        default: 64,
      },
    },
    additionalProperties: false,
  },
  provides: { principal: "requestHeaders", ticket: "requestHeaders" },
  uses: ["accounts"],
  permissions: { deployment: ["store"] },
  operation: ({ failures, headers }) => ({
    refusals: [
      ...(headers.length > 0
        ? [
            {
              code: "GATEWAY_INVALID_PARAMS",
              description: "Two headers contain different API keys.",
            } as const,
          ]
        : []),
      { code: "GATEWAY_SERVICE_UNAVAILABLE", description: "The API key cannot be checked now." },
      ...(failures > 0
        ? [
            {
              code: "GATEWAY_RATE_LIMITED",
              description: "Too many unknown keys came from this address.",
            } as const,
          ]
        : []),
    ],
  }),
  start({ failures, windowSeconds, blockSeconds, ipv6Prefix, headers }, host) {
    const accounts = host.use("accounts");
    const place = host.store.postgres === undefined ? "state.db" : "PostgreSQL";
    const unavailable = (x: Exchange): Reply => {
      x.note("store", `${place} does not answer, so the key cannot be checked`);
      return refuse("GATEWAY_SERVICE_UNAVAILABLE");
    };
    const authenticate = (
      x: Exchange,
      then: (caller: Principal) => Reply | undefined,
    ): Awaitable<Reply | undefined> => {
      const credential = credentialIn(x, headers);
      if (credential === ambiguous) return differentKeys;
      return andThen(identify(x, accounts, credential), (caller) => {
        if (caller.kind === "unavailable") return unavailable(x);
        setPrincipal(x, caller);
        return then(caller);
      });
    };
    if (failures === 0) return { requestHeaders: (x) => authenticate(x, () => undefined) };
    // The last of these failures already blocks the address, so that its next unknown key is refused.
    const limit = { name: "failed-key", attempts: failures - 1, windowSeconds, blockSeconds };
    const limiter =
      host.threads === undefined
        ? createAttemptLimiter(host.store.redis, limit)
        : createSharedAttemptLimiter(host.threads, limit);
    const failedKeys = new FailedKeys(limiter, host.clock, ipv6Prefix);
    const blocked = blockedReply(failures, windowSeconds);
    const allFailures = {
      scope: "failed-keys",
      unit: "requests",
      used: failures,
      limit: failures,
    } as const;
    return {
      requestHeaders: (x) =>
        authenticate(x, (caller) => {
          const blockedMs = isUnknownKey(caller) ? failedKeys.blockedMs(x.request.address) : 0;
          if (blockedMs === 0) return undefined;
          const clearsAt = Math.ceil(x.arrivedAt + blockedMs);
          return { ...blocked, reached: { ...allFailures, clearsAt } };
        }),
      settled(x) {
        if (!revealingCodes.has(x.sent.code) || !isUnknownKey(x.get("principal"))) return;
        void failedKeys.count(x.request.address);
      },
      stop: () => limiter[Symbol.dispose]?.(),
    };
  },
});

/** One part of a deployment could take one key and another part the other. */
const differentKeys = refuse("GATEWAY_INVALID_PARAMS", {
  message: "two headers contain different API keys",
});

/**
 * Codes of the responses that reveal whether a key exists: the 401, and the 400 for an idempotency key without a valid
 * API key. A refusal by an earlier limit does not reveal it.
 */
const revealingCodes: ReadonlySet<string | undefined> = new Set([
  "GATEWAY_UNAUTHORIZED",
  "GATEWAY_INVALID_IDEMPOTENCY_KEY",
]);

/** True for a well-formed key that is unknown, revoked or of another environment. An expired key is not a guess. */
function isUnknownKey(principal: Principal): boolean {
  return principal.kind === "anonymous" && principal.reason === "unauthorized";
}

/** `t=1` matches the Retry-After of one second that the specification requires. The block may last longer. */
function blockedReply(failures: number, windowSeconds: number): Reply {
  return refuse("GATEWAY_RATE_LIMITED", {
    headers: [
      "ratelimit-policy",
      `"failed-keys";q=${failures};w=${windowSeconds}`,
      "ratelimit",
      `"failed-keys";r=0;t=1`,
    ],
  });
}
