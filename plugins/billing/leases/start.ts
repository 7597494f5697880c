/** Starts metering on credit that gateways with the same database share. Charges are recorded in PostgreSQL only. */
import { randomUUID } from "node:crypto";
import type { Host, Postgres, ServiceContext, ServiceHooks } from "sluice-gateway/plugin";
import { explainPostgres, postgresError } from "sluice-gateway/postgres";
import type { Metering } from "sluice-gateway/services";
import { exportOf, type Options } from "../metering/options.ts";
import { createChargeStore } from "../shipping/charge-store.ts";
import { checkShipped } from "../shipping/journal-state.ts";
import { LeasedMeter } from "./leased-meter.ts";
import type { ReplicaMode } from "./ledger.ts";
import { LedgerLink } from "./ledger-link.ts";
import { leaseMetrics } from "./metrics.ts";
import { createPostgresLedger } from "./postgres-ledger.ts";
import { LedgerReplica } from "./replica.ts";
import { createUsageQueries } from "./usage-queries.ts";
import { createDatabaseReports } from "./usage-reports.ts";

interface LeasedOptions extends Options {
  readonly durability: ReplicaMode;
}

type LeasedHost = Pick<Host, "clock" | "log" | "metrics" | "version"> & {
  readonly store: Pick<Host["store"], "redis">;
};

/** See `Metering.outageMs`. The time is short, because other gateways continue to run and may have revoked keys. */
const sharedOutageMs = 5_000;
/** Time limit of a usage report, which may read the charges of a month. */
const reportMs = 30_000;

/** Rejects with StoreError. */
export async function startLeased(
  options: LeasedOptions,
  database: Postgres,
  host: LeasedHost & Pick<Host, "store">,
  { keep }: ServiceContext,
): Promise<ServiceHooks<Metering>> {
  try {
    await checkShipped(host.store.folder, createChargeStore(database));
  } catch (error) {
    throw explainPostgres(error, database.place);
  }
  const meter = await keep(
    "leased credit",
    () => openLeasedMeter(database, options.durability, host),
    async (opening) => {
      const opened = await opening.catch(() => undefined);
      await opened?.close();
    },
  );
  const settings = exportOf(options);
  if (settings !== undefined) {
    const { clock, log, metrics, store } = host;
    const { openSharedExport } = await import("../metering/export/open-shared.ts");
    const holder = store.replicas?.id ?? randomUUID();
    const parts = { database, holder, settings, dataDir: store.folder, clock, log, metrics };
    keep(
      "export",
      () => openSharedExport(parts),
      (usageExport) => usageExport.close(),
    );
  }
  const queries = createUsageQueries(database);
  const reports = keep(
    "reports",
    () => database.separate({ connections: 1, statementMs: reportMs }),
    () => {},
  );
  return {
    service: {
      reserve: (principal, costMilliCu, about) => meter.reserve(principal, costMilliCu, about),
      reserveWithoutLimit: (principal, costMilliCu, about) =>
        meter.reserveWithoutLimit(principal, costMilliCu, about),
      purchasedLeft: (workspace) => queries.purchasedLeft(workspace),
      keyWindows: (key) => queries.keyWindows(key),
      workspaceUsage: (workspaceId) => queries.workspaceUsage(workspaceId),
      outageMs: sharedOutageMs,
      usage: createDatabaseReports(reports, host.log),
    },
    ready: () => ({ credit: meter.writable ? true : "PostgreSQL does not answer" }),
  };
}

/** Registers this gateway, and opens its meter. Rejects with StoreError. */
export async function openLeasedMeter(
  database: Postgres,
  mode: ReplicaMode,
  { clock, log, metrics, version, store }: LeasedHost,
): Promise<LeasedMeter> {
  const ledger = createPostgresLedger(database, version);
  const replica = new LedgerReplica(database.replica, mode);
  const shown = leaseMetrics(metrics);
  const link = new LedgerLink({ ledger, replica, clock, log, metrics: shown });
  try {
    await link.start();
  } catch (error) {
    throw explainPostgres(error, database.place);
  }
  if (replica.inUseBy !== undefined) {
    throw postgresError(
      "SLUICE_STORE_IN_USE",
      `another gateway, "${replica.inUseBy}", uses the PostgreSQL database alone`,
      "Stop that gateway, or write `durability: settled` for it. A gateway that was killed counts as ended after 10 seconds.",
    );
  }
  const showGateways = ({ live, silent, stranded }: Gateways): void => {
    shown.replicas("live").set(live);
    shown.replicas("silent").set(silent);
    shown.strandedMilliCu.set(stranded);
    // A silent gateway may still run, so it keeps its share of the request rates.
    store.redis?.setReplicas(live + silent);
  };
  void sweep(database, showGateways);
  const sweeper = clock.every(sweepMs, () => void sweep(database, showGateways));
  return new LeasedMeter({
    link,
    replica,
    sweeper,
    clock,
    metrics: shown,
    isAsync: mode === "async",
  });
}

const sweepMs = 10_000;

interface Gateways {
  readonly live: number;
  readonly silent: number;
  /** Credit of silent gateways, in milli-CU. */
  readonly stranded: number;
}

/** Deletes rows that are no longer needed, and reports the state of all gateways. Never rejects. */
async function sweep(database: Postgres, report: (gateways: Gateways) => void): Promise<void> {
  try {
    const [row] = await database.query("sweep", "SELECT sluice.credit_sweep() AS reply");
    // Only the function in schema-usage.ts writes the reply.
    report(row?.["reply"] as Gateways);
  } catch {
    // The next sweep tries again.
  }
}
