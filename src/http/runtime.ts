/** Opens what all exchanges of a gateway share: the time limits of bodies and surfaces, and the addresses of clients. */
import type { ServerConfig } from "../config/config.ts";
import type { ExchangeObserver } from "../pipeline/observe/record.ts";
import type { LiveExchange } from "../pipeline/run/exchange.ts";
import { bodyRefused, bodyTimedOut } from "../pipeline/run/request-body.ts";
import { runner } from "../pipeline/run/run.ts";
import type { Runtime } from "../pipeline/run/runtime.ts";
import type { Clock, Log, Metrics } from "../plugin.ts";
import { addressReader, peerReader } from "../message/address.ts";
import { createBodyWatch } from "./body-watch.ts";
import type { HeldBytes } from "../memory/held-bytes.ts";
import { createReaderWatch } from "./reader-watch.ts";
import { createSurfaceWatch } from "./surface-watch.ts";

export interface RuntimeOptions {
  readonly server: Pick<ServerConfig, "trustProxy" | "bodyIdleMs">;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly held: HeldBytes;
  readonly observers: Iterable<ExchangeObserver>;
}

/** Dispose of the result to end its timers. */
export function openRuntime(options: RuntimeOptions): Runtime<LiveExchange> & Disposable {
  const { server, clock, log, held, observers } = options;
  const bodyWatch = createBodyWatch({
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
