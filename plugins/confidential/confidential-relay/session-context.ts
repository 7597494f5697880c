import type { Clock } from "sluice-gateway/plugin";
import type { StreamCustomer } from "sluice-gateway/services";
import { createFrameWatch, type FrameWatch } from "../protocol/frame-watch.ts";
import type { Hello } from "../protocol/hello.ts";
import { nodeSuite } from "../protocol/node-crypto.ts";
import type { SeenCounters } from "../protocol/seen-counters.ts";
import type { AcceptedSession } from "./accept-hello.ts";
import type { RetryCredits } from "./stream-store.ts";
import type { UpstreamSession } from "./upstream-session.ts";

export interface SessionContext {
  readonly hello: Hello;
  readonly id: string;
  readonly upstream: UpstreamSession;
  readonly watch: FrameWatch;
  readonly customer: StreamCustomer;
  readonly counters: SeenCounters;
  readonly retryCredits: RetryCredits;
  /** Seconds since 1970. */
  readonly now: () => number;
}

export interface SessionContextDeps {
  readonly clock: Clock;
  readonly counters: SeenCounters;
  readonly retryCredits: RetryCredits;
}

export function createSessionContext(
  { hello, id, upstream }: AcceptedSession,
  customer: StreamCustomer,
  { clock, counters, retryCredits }: SessionContextDeps,
): SessionContext {
  return {
    hello,
    id,
    upstream,
    customer,
    counters,
    retryCredits,
    watch: createFrameWatch(nodeSuite.newHash),
    now: () => Math.floor(clock.now() / 1000),
  };
}
