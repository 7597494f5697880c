/** Starts metering with credit that is shared by all gateways on the same database. */
import { randomUUID } from "node:crypto";
import type { Host, Postgres, ServiceContext, ServiceHooks } from "sluice-gateway/plugin";
import { explainPostgres, postgresError } from "sluice-gateway/postgres";
import type { Metering } from "sluice-gateway/services";
import { exportOf, type Options } from "../metering/options.ts";
import { createDatabaseReports } from "../metering/usage/reports.ts";
import { openDataFolder } from "sluice-gateway/store";
import { findJournal } from "../shipping/charge-store.ts";
import { checkContinuation, checkShipped } from "../shipping/journal-state.ts";
import { shippingMetrics } from "../shipping/metrics.ts";
import type { GatewayJournal } from "./gateway-journal.ts";
import { JournalLane, type ChargeJournal } from "./journal-lane.ts";
import { LeasedMeter } from "./leased-meter.ts";
import { localOutageMs, type ReplicaMode } from "./ledger.ts";
import { LedgerLink } from "./ledger-link.ts";
import { leaseMetrics } from "./metrics.ts";
import { createPostgresLedger } from "./postgres-ledger.ts";
import { LedgerReplica } from "./replica.ts";
import { createUsageQueries } from "./usage-queries.ts";

type LeasedHost = Pick<Host, "clock" | "log" | "metrics" | "version"> & {
  readonly store: Pick<Host["store"], "redis">;
};

/** See `Metering.outageMs`. The time is short, because other gateways continue to run and may have revoked keys. */
const outageMs: Readonly<Record<ReplicaMode, number>> = {
  settled: 5_000,
  async: 5_000,
  local: localOutageMs,
};
/** Time limit of a usage report, which may read the charges of a month. */
const reportMs = 30_000;

/** Rejects with StoreError. */
export async function startLeased(
  options: Options,
  database: Postgres,
  host: LeasedHost & Pick<Host, "store">,
  { keep }: ServiceContext,
): Promise<ServiceHooks<Metering>> {
  const mode = options.metering.durability;
  const { folder } = host.store;
  const journal = mode === "local" ? await keepJournal(folder, host, keep) : undefined;
  if (journal === undefined) await checked(database, () => checkShipped(folder, database));
  const meter = await keep(
    "leased credit",
    () => openLeasedMeter(database, mode, host, journal),
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
      outageMs: outageMs[mode],
      usage: createDatabaseReports(reports, host.log),
    },
    ready: () => ({ credit: meter.writable ? true : meter.problem }),
  };
}

/** Locks the data folder, and opens its journal. The journal is closed after the meter, and the folder after both. */
async function keepJournal(
  dataDir: string,
  host: LeasedHost,
  keep: ServiceContext["keep"],
): Promise<GatewayJournal> {
  keep(
    "data folder",
    () => openDataFolder(dataDir),
    (folder) => folder[Symbol.dispose](),
  );
  const { openGatewayJournal } = await import("./gateway-journal.ts");
  return keep(
    "journal",
    () => openGatewayJournal({ ...host, dataDir }),
    async (opening) => {
      const opened = await opening.catch(() => undefined);
      await opened?.close();
    },
  );
}

async function checked<T>(database: Postgres, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw explainPostgres(error, database.place);
  }
}

/**
 * Registers this gateway, and opens its meter. `journal`: the journal of its data folder, with `local`. Rejects with
 * StoreError.
 */
export async function openLeasedMeter(
  database: Postgres,
  mode: ReplicaMode,
  { clock, log, metrics, version, store }: LeasedHost,
  journal?: OpenJournal,
): Promise<LeasedMeter> {
  const ledger = createPostgresLedger(database, version);
  const shown = leaseMetrics(metrics);
  const shipping = journal === undefined ? undefined : { journal, ...shippingMetrics(metrics) };
  const { replica, link } = await checked(database, async () => {
    let wake = (): void => {};
    const lane = journal && (await journalLane(database, journal, () => wake()));
    const opened = new LedgerReplica(database.replica, mode, lane);
    if (journal !== undefined) opened.credit.moveTo(journal.newest);
    const deps = { ledger, replica: opened, clock, log, metrics: shown };
    const started = new LedgerLink({ ...deps, stopped: shipping?.stopped });
    wake = () => started.wake();
    await started.start();
    return { replica: opened, link: started };
  });
  if (replica.isReplaced) {
    throw postgresError(
      "SLUICE_STORE_IN_USE",
      "another gateway has just started on a copy of this data folder",
      "Give each gateway its own data folder, which must not be a copy of another one.",
    );
  }
  const showGateways = ({ live, silent, running, stranded }: Gateways): void => {
    shown.replicas("live").set(live);
    shown.replicas("silent").set(silent);
    shown.strandedMilliCu.set(stranded);
    // A silent gateway may still run for a while, so it keeps its share of the request rates.
    store.redis?.setReplicas(running);
  };
  void sweep(database, showGateways);
  const sweeper = clock.every(sweepMs, () => void sweep(database, showGateways));
  return new LeasedMeter({ link, replica, sweeper, clock, metrics: shown, mode, shipping });
}

/** The part of a journal that a meter uses. */
type OpenJournal = Pick<GatewayJournal, keyof ChargeJournal | "newest" | "readSince"> & {
  readonly dataDir: string;
};

/** Rejects with StoreError if the folder of the journal was restored from a backup. */
async function journalLane(
  database: Postgres,
  journal: OpenJournal,
  onChange: () => void,
): Promise<JournalLane> {
  const known = await findJournal(database, journal.id);
  checkContinuation(journal.dataDir, known);
  return new JournalLane({ journal, lastStart: known?.starts ?? 0, onChange });
}

const sweepMs = 10_000;

interface Gateways {
  readonly live: number;
  readonly silent: number;
  /** Number of the gateways that may still serve requests. */
  readonly running: number;
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
