/** Starts metering, on the journal of this gateway or on credit that gateways share in PostgreSQL. */
import type { Host, ServiceContext, ServiceHooks } from "sluice-gateway/plugin";
import type { Metering } from "sluice-gateway/services";
import { openUsageExport } from "./export/open.ts";
import { exportOf, type Options } from "./options.ts";

/** The driver of PostgreSQL and the journal are imported only where they are used. */
export async function startMetering(
  options: Options,
  host: Host,
  context: ServiceContext,
): Promise<ServiceHooks<Metering>> {
  const started = await startMeter(options, host, context);
  const settings = exportOf(options);
  const isMain = host.threads === undefined || host.threads.index === 0;
  if (settings !== undefined && isMain) {
    context.keep(
      "export",
      () => openUsageExport(host, settings),
      (usageExport) => usageExport.close(),
    );
  }
  return started;
}

async function startMeter(
  options: Options,
  host: Host,
  context: ServiceContext,
): Promise<ServiceHooks<Metering>> {
  const database = host.store.postgres;
  if (database !== undefined) {
    const { startLeased } = await import("../leases/start.ts");
    return startLeased(options, database, host, context);
  }
  const { threads } = host;
  if (threads !== undefined && threads.index > 0) {
    const { startInThread } = await import("./start-thread.ts");
    return startInThread(options, threads, host, context);
  }
  const { startEmbedded } = await import("./start-embedded.ts");
  return startEmbedded(options, host, context);
}
