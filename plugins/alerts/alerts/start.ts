import { hostname } from "node:os";
import { sendRequest } from "sluice-gateway/internal/http";
import type { Host, ServiceContext } from "sluice-gateway/plugin";
import { durationMs } from "sluice-gateway/internal/toolkit";
import { Delivery, type WaitingAlert } from "./delivery.ts";
import type { Alert } from "./event.ts";
import {
  diskSpace,
  ejectedBackends,
  failedReload,
  lowDisk,
  stuckExport,
} from "./gateway-problems.ts";
import { LimitWatch } from "./limits.ts";
import { MetricWatch } from "./metric-problems.ts";
import { alertMetrics } from "./metrics.ts";
import { Problems } from "./problems.ts";

/** Interval between two checks of everything except the limits. */
export const lookMs = 10_000;
/** Interval between two checks of the limits, which read the charges. */
export const limitsMs = 60_000;

/** The options of a gateway that sends alerts. */
export interface ActiveOptions {
  readonly url: string;
  readonly secret: string;
  readonly minFreePercent: number;
  readonly stuckAfter: string;
}

/** The parts that a reload with other options keeps. */
interface Kept {
  readonly problems: Problems;
  readonly watch: MetricWatch;
  readonly waiting: WaitingAlert[];
}

export function startAlerts(
  options: ActiveOptions,
  host: Host,
  { keep }: Pick<ServiceContext, "keep">,
): { stop(): void } {
  const { clock, log, metrics, store, environment } = host;
  const { url, secret, minFreePercent } = options;
  const gateway = host.use("gateway");
  const open = (): Kept => ({
    problems: new Problems(),
    watch: new MetricWatch(),
    waiting: [],
  });
  const { problems, watch, waiting } = keep("alerts", open, () => undefined);
  const delivery = new Delivery(
    { url, secret, send: sendRequest, clock, log, metrics: alertMetrics(metrics) },
    waiting,
  );
  const name = store.postgres?.replica ?? hostname();
  const send = ({ type, summary, data }: Alert): void => {
    const timestamp = new Date(clock.now()).toISOString();
    const all = { gateway: name, environment, summary, ...data };
    delivery.add(type, JSON.stringify({ type, timestamp, data: all }));
  };
  const stuckAfterMs = durationMs(options.stuckAfter) ?? 0;
  host.every(lookMs, async (signal) => {
    const space = await diskSpace(store.folder);
    if (signal.aborted) return;
    const running = gateway.running();
    const found = {
      backend: ejectedBackends(running),
      reload: failedReload(running),
      export: stuckExport(running, stuckAfterMs),
      disk: lowDisk(space, store.folder, minFreePercent),
      state: watch.states(running, clock.now()),
      event: watch.events(running),
    };
    for (const [prefix, current] of Object.entries(found)) {
      for (const alert of problems.update(prefix, current, clock.now())) send(alert);
    }
  });
  const accounts = host.use("accounts", { ifInstalled: true });
  const metering = host.use("metering", { ifInstalled: true });
  if (accounts !== undefined && metering !== undefined) {
    const limits = new LimitWatch({ accounts, metering, claims: host.claims, clock });
    host.every(limitsMs, () => limits.look(send));
  }
  return { stop: () => delivery.close() };
}
