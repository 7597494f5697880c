/** Opens what all exchanges of a gateway share: the time limits of bodies and surfaces, and the addresses of clients. */
import type { ServerConfig } from "../config/config.ts";
import type { ExchangeObserver } from "../pipeline/observe/record.ts";
import type { LiveExchange } from "../pipeline/run/exchange.ts";
import { bodyRefused, bodyTimedOut } from "../pipeline/run/request-body.ts";
import { runner } from "../pipeline/run/run.ts";
import type { Runtime } from "../pipeline/run/runtime.ts";
import type { Clock, Log, Metrics } from "../plugin.ts";
import { addressReader, peerReader } from "./address.ts";
import { createBodyWatch } from "./body-watch.ts";
import { createSurfaceWatch } from "./surface-watch.ts";

export interface RuntimeOptions {
  readonly server: Pick<ServerConfig, "trustProxy" | "bodyIdleMs" | "unfinishedBodyBytes">;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
  /** Called for each exchange that has ended. */
  readonly observers: Iterable<ExchangeObserver>;
}

/** Dispose of the result to end its timers. */
export function openRuntime(options: RuntimeOptions): Runtime<LiveExchange> & Disposable {
  const { server, clock, log, observers } = options;
  const bodyWatch = createBodyWatch({
    clock,
    metrics: options.metrics,
    idleMs: server.bodyIdleMs,
    maxBytes: server.unfinishedBodyBytes,
    timedOut: bodyTimedOut,
    refused: bodyRefused,
  });
  const surfaceWatch = createSurfaceWatch(clock, log);
  return {
    clock,
    log,
    addressOf: addressReader(server.trustProxy),
    peerOf: peerReader(server.trustProxy),
    runner,
    bodyWatch,
    surfaceWatch,
    stallMs: server.bodyIdleMs,
    observers,
    [Symbol.dispose]() {
      bodyWatch[Symbol.dispose]();
      surfaceWatch[Symbol.dispose]();
    },
  };
}
