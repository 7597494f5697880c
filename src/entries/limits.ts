/** Limits on attempts that replicas share, exported as `sluice-gateway/internal/limits`. */
export {
  createAttemptLimiter,
  type AttemptLimit,
  type AttemptLimiter,
} from "../store/attempt-limiter.ts";
