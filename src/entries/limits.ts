/** Limits on attempts that replicas share, exported as `sluice-gateway/limits`. */
export {
  createAttemptLimiter,
  type AttemptLimit,
  type AttemptLimiter,
} from "../store/attempt-limiter.ts";
