/** Limits on attempts that replicas share, exported as `sluice-gateway/internal/limits`. */
export {
  createAttemptLimiter,
  createSharedAttemptLimiter,
  type AttemptLimit,
  type AttemptLimiter,
} from "../store/attempt-limiter.ts";
