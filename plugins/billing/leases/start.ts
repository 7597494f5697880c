/** Starts metering with credit that is shared by all gateways on the same database. */
import type { Host, Postgres, ServiceContext, ServiceHooks } from "sluice-gateway/plugin";
import { explainPostgres } from "sluice-gateway/internal/postgres";
import type { Metering, MeterUnavailable } from "sluice-gateway/services";
import type { Options } from "../metering/options.ts";
import { number } from "sluice-gateway/internal/store";
import { createDatabaseReports } from "../metering/usage/reports.ts";
import { checkCopied } from "./copy-charges.ts";
import { LeasedMeter } from "./leased-meter.ts";
import type { ReplicaMode } from "./ledger.ts";
import { LedgerLink } from "./ledger-link.ts";
import { leaseMetrics, type LeaseMetrics } from "../metering/metrics.ts";
import { heldSql, ofWorkspaceSql } from "./ledger-statements.ts";
import { createPostgresLedger } from "./postgres-ledger.ts";
import { LedgerReplica } from "./replica.ts";
import { createMonthReader, createUsageQueries } from "./usage-queries.ts";

type LeasedHost = Pick<Host, "clock" | "log" | "metrics" | "version"> & {
  readonly store: Pick<Host["store"], "redis" | "session">;
};

const unavailable = {
  kind: "unavailable",
  reason: "PostgreSQL does not answer",
} as const satisfies MeterUnavailable;
/** See `Metering.outageMs`. The time is short, because other gateways continue to run and may have revoked keys. */
const outageMs = 5_000;
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
  await checked(database, () => checkCopied(host.store.folder, database));
  const meter = await keep(
    "leased credit",
    () => openLeasedMeter(database, mode, host),
    async (opening) => {
      const opened = await opening.catch(() => undefined);
      await opened?.close();
    },
  );
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
      ...createUsageQueries(database),
      outageMs,
      usage: createDatabaseReports(reports, createMonthReader(reports), host.log),
    },
    ready: () => ({ credit: meter.writable ? true : unavailable.reason }),
  };
}

async function checked<T>(database: Postgres, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw explainPostgres(error, database.place);
  }
}

/** Registers this gateway, and opens its meter. Rejects with StoreError. */
export async function openLeasedMeter(
  database: Postgres,
  mode: ReplicaMode,
  { clock, log, metrics, version, store }: LeasedHost,
): Promise<LeasedMeter> {
  const ledger = createPostgresLedger(database, version, store.session);
  const shown = leaseMetrics(metrics);
  const replica = new LedgerReplica(database.replica, mode);
  const sweepDatabase = (): void => void sweep(database, shown, store.redis);
  const place = "PostgreSQL";
  const link = new LedgerLink({
    ledger,
    replica,
    clock,
    log,
    metrics: shown,
    place,
    sweepDatabase,
  });
  await checked(database, () => link.start());
  sweepDatabase();
  const isAsync = mode === "async";
  return new LeasedMeter({ link, metrics: shown, isAsync, unavailable });
}

/**
 * Counts the gateways. A gateway is silent if it has sent no message to PostgreSQL for 2 seconds. `stranded`: credit of
 * silent gateways in milli-CU.
 */
const countGateways = `
  SELECT count(*) FILTER (WHERE NOT is_silent) AS live, count(*) FILTER (WHERE is_silent) AS silent,
    coalesce(sum((SELECT sum(${heldSql("l")}) FROM sluice.leases l
      WHERE replica = r.id AND is_silent AND ${ofWorkspaceSql("l")})), 0)::bigint AS stranded
  FROM (SELECT id, sluice.now_ms() - heard_at > 2000 AS is_silent
    FROM sluice.replicas WHERE state = 'live') AS r`;

async function sweep(
  database: Postgres,
  shown: LeaseMetrics,
  redis: Host["store"]["redis"],
): Promise<void> {
  try {
    await database.query("sweep", "SELECT sluice.credit_sweep()");
    const [row = {}] = await database.query("sweep", countGateways);
    const [live, silent] = [number(row, "live"), number(row, "silent")];
    shown.replicas("live").set(live);
    shown.replicas("silent").set(silent);
    shown.strandedMilliCu.set(number(row, "stranded"));
    // A silent gateway may still run for a while, so it keeps its share of the request rates.
    redis?.setReplicas(live + silent);
  } catch {
    // The next sweep tries again.
  }
}
