/** Runs the tests of meters and usage reports on credit that gateways share, directly and through PgBouncer. */
import type { TestContext } from "node:test";
import type { UsageReports } from "sluice-gateway/services";
import { openLeasedMeter } from "../../plugins/billing/leases/start.ts";
import {
  createMonthReader,
  createUsageQueries,
} from "../../plugins/billing/leases/usage-queries.ts";
import { createDatabaseReports } from "../../plugins/billing/metering/usage/reports.ts";
import { systemClock } from "../../src/base/clock.ts";
import { createMetrics } from "../../src/base/metrics.ts";
import { openPostgres } from "../../src/store/postgres/postgres.ts";
import { createSession } from "../../src/store/session.ts";
import { postgresSql } from "../../src/store/sql/postgres-sql.ts";
import { runSql } from "../store/servers.ts";
import { createUpgradedDatabase } from "../store/upgraded-database.ts";
import { describeMeter, type ContractMeter, type RecordedCharge } from "./meter.ts";
import { describeUsage } from "./usage.ts";
import { describeWithPgBouncer } from "./through-pgbouncer.ts";
import { silentLog } from "../test-log.ts";

interface Gateway {
  readonly meter: ContractMeter;
  readonly usage: UsageReports;
}

function describeLeased(name: string, port: () => number | undefined): void {
  const databaseOf = async (t: TestContext): Promise<{ url: string; through: URL }> => {
    const url = await createUpgradedDatabase(t, "a secret of this deployment");
    const through = new URL(url);
    through.port = String(port() ?? through.port);
    return { url, through };
  };
  const openGateway = async (t: TestContext, through: URL, replica: string): Promise<Gateway> => {
    const metrics = createMetrics();
    const database = openPostgres({ url: through.href, replica, metrics });
    const host = {
      clock: systemClock,
      log: silentLog,
      metrics,
      version: "test",
      store: {
        redis: undefined,
        session: createSession(postgresSql(database, "session").query, systemClock),
      },
    };
    const meter = await openLeasedMeter(database, "settled", host);
    t.after(async () => {
      await meter.close();
      await database.close();
    });
    const opened: ContractMeter = {
      reserve: (...args) => meter.reserve(...args),
      reserveWithoutLimit: (...args) => meter.reserveWithoutLimit(...args),
      ...createUsageQueries(database),
    };
    return {
      meter: opened,
      usage: createDatabaseReports(database, createMonthReader(database), silentLog),
    };
  };
  describeMeter(name, async (t) => {
    const { url, through } = await databaseOf(t);
    const [one, other] = [
      await openGateway(t, through, "one"),
      await openGateway(t, through, "other"),
    ];
    return { one: one.meter, other: other.meter, charges: () => recorded(url) };
  });
  describeUsage(name, async (t) => {
    const { through } = await databaseOf(t);
    return { ...(await openGateway(t, through, "one")), now: () => Date.now() };
  });
}

async function recorded(url: string): Promise<RecordedCharge[]> {
  const rows = await runSql(url, "SELECT * FROM sluice.usage ORDER BY replica, seq");
  return rows.map((row) => ({
    requestId: String(row["request_id"]),
    surface: String(row["surface"]),
    method: String(row["method"]),
    model: (row["model"] as string | null) ?? undefined,
    agentName: (row["agent"] as { name?: string } | null)?.name,
    costMilliCu: Number(row["used_cu_milli"]),
    inputTokens: Number(row["input_tokens"]),
    outcome: String(row["outcome"]),
  }));
}

describeWithPgBouncer("leased credit", describeLeased);
