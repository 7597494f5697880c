/** Runs the tests of the contract of rate buckets on Redis. */
import { microsOf, simulateRedis } from "../plugins/edge/rate-limit/simulated-replicas.ts";
import { describeBuckets } from "./buckets.ts";

describeBuckets("Redis", async (t) => {
  const simulated = await simulateRedis(t);
  if (simulated === undefined) return undefined;
  simulated.redis.replicas = 2;
  return {
    one: (caller, terms) => simulated.bucket(terms, caller),
    other: (caller, terms) => simulated.bucket(terms, caller),
    now: () => microsOf(simulated),
    pass: (ms) => simulated.clock.advance(ms),
  };
});
