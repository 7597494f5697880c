import type { ServerConfig } from "../config/config.ts";
import type { ExchangeObserver } from "../pipeline/observe/record.ts";
import type { LiveExchange } from "../pipeline/run/exchange.ts";
import { bodyRefused, bodyTimedOut } from "../pipeline/run/request-body.ts";
import { runner } from "../pipeline/run/run.ts";
import type { Runtime, ExchangeWatch } from "../pipeline/run/runtime.ts";
import type { Clock, Log, Metrics } from "../plugin.ts";
import { addressReader, peerReader } from "../message/address.ts";
import { LiveBodyWatch } from "./body-watch.ts";
import type { HeldBytes } from "../memory/held-bytes.ts";
import { createReaderWatch } from "./reader-watch.ts";

/** Four times the time limit of the calls of shipped modules that run to their end after a client has left. */
const limitMs = 120_000;

const sweepMs = 10_000;

export interface RuntimeOptions {
  readonly server: Pick<ServerConfig, "trustProxy" | "bodyIdleMs">;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly held: HeldBytes;
  readonly observers: Iterable<ExchangeObserver>;
}

export function openRuntime(options: RuntimeOptions): Runtime<LiveExchange> & Disposable {
  const { server, clock, log, held, observers } = options;
  const bodyWatch = new LiveBodyWatch({
    clock,
    metrics: options.metrics,
    idleMs: server.bodyIdleMs,
    held,
    timedOut: bodyTimedOut,
    refused: bodyRefused,
  });
  const readerWatch = createReaderWatch({ clock, held, windowMs: server.bodyIdleMs });
  const surfaceWatch = createSurfaceWatch(clock, log);
  return {
    clock,
    log,
    addressOf: addressReader(server.trustProxy),
    peerOf: peerReader(server.trustProxy),
    runner,
    bodyWatch,
    readerWatch,
    held,
    surfaceWatch,
    stallMs: server.bodyIdleMs,
    observers,
    [Symbol.dispose]() {
      bodyWatch[Symbol.dispose]();
      readerWatch[Symbol.dispose]();
      surfaceWatch[Symbol.dispose]();
    },
  };
}

/**
 * Ends exchanges whose surface does not return after the client got its answer or left, and those whose surface has
 * returned without ending its stream. Otherwise what they hold would remain reserved, and the generation that they run
 * on could never be stopped.
 */
function createSurfaceWatch(clock: Clock, log: Log): ExchangeWatch<LiveExchange> & Disposable {
  /** The monotonic time at which each response ended or its surface returned, oldest first. */
  const waiting = new Map<LiveExchange, number>();
  const sweep = (): void => {
    const due = clock.monotonic() - limitMs;
    for (const [x, since] of waiting) {
      if (since > due) return;
      waiting.delete(x);
      if (x.hasSettled) continue;
      const fields = { plugin: x.route.surface, route: x.route.path };
      if (x.isSurfaceRunning) {
        log.error(fields, "a surface did not return in time");
        x.surfaceReturned();
      } else {
        log.error(fields, "a surface returned without ending its stream, which was cut");
        x.cutOff("upstreamFailed");
      }
    }
  };
  const timer = clock.every(sweepMs, sweep);
  return {
    add: (x) => void waiting.set(x, clock.monotonic()),
    remove: (x) => void waiting.delete(x),
    [Symbol.dispose]: () => timer[Symbol.dispose](),
  };
}
