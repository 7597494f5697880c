/** Meters with a journal whose charges are copied to a database. */
import assert from "node:assert/strict";
import type { TestContext } from "node:test";
import { setTimeout as wait } from "node:timers/promises";
import { openGatewayJournal } from "../../../../plugins/billing/leases/gateway-journal.ts";
import type { LeasedMeter } from "../../../../plugins/billing/leases/leased-meter.ts";
import { openLeasedMeter } from "../../../../plugins/billing/leases/start.ts";
import { shippedMigrations } from "../../../../src/pipeline/load/migrations.ts";
import { readUsage } from "../../../../plugins/billing/metering/read-usage.ts";
import { usageJson } from "../../../../plugins/billing/metering/usage-json.ts";
import { systemClock } from "../../../../src/clock.ts";
import { createMetrics, type RenderedMetrics } from "../../../../src/metrics.ts";
import type { Clock } from "../../../../src/plugin.ts";
import { openPostgres } from "../../../../src/store/postgres/postgres.ts";
import { upgradeSchema } from "../../../../src/store/postgres/migrations.ts";
import { createSeal } from "../../../../src/store/seal.ts";
import { runSql } from "../../../store/servers.ts";
import { keptLog } from "../../../test-log.ts";

export const seal = createSeal("a secret of this deployment");

/** Creates the tables. */
export async function upgrade(url: string, secret = seal): Promise<void> {
  const database = openPostgres({ url, replica: "upgrade", metrics: createMetrics() });
  try {
    await upgradeSchema(database, await shippedMigrations(), secret);
  } finally {
    await database.close();
  }
}

/** A meter with a journal whose charges are copied to a database. */
export interface LocalMeter extends Pick<LeasedMeter, "reserve" | "reserveWithoutLimit"> {
  readonly metrics: RenderedMetrics;
  /** Logged lines, as `level message`. */
  readonly logged: readonly string[];
  readonly isWritable: () => boolean;
  close(): Promise<void>;
}

/** Opens a meter on the journal of a folder. It ends with the test. Rejects with StoreError. */
export async function openLocal(
  t: TestContext,
  dataDir: string,
  url: string,
  { replica = "one", clock = systemClock }: { replica?: string; clock?: Clock } = {},
): Promise<LocalMeter> {
  const metrics = createMetrics();
  const { log, lines: logged } = keptLog();
  const database = openPostgres({ url, replica, metrics, statementMs: 1_000 });
  t.after(() => database.close());
  const host = { clock, log, metrics, version: "test", store: { redis: undefined } };
  const journal = await openGatewayJournal({ ...host, dataDir });
  t.after(() => journal.close());
  const meter = await openLeasedMeter(database, "local", host, journal);
  let closing: Promise<void> | undefined;
  const close = (): Promise<void> => (closing ??= meter.close().then(() => journal.close()));
  t.after(close);
  return {
    reserve: (...args) => meter.reserve(...args),
    reserveWithoutLimit: (...args) => meter.reserveWithoutLimit(...args),
    metrics,
    logged,
    isWritable: () => meter.writable,
    close,
  };
}

/** Waits until a condition holds. Throws after 30 seconds, so that a broken copy fails its test. */
export async function until(isTrue: () => Promise<boolean>): Promise<void> {
  const end = performance.now() + 30_000;
  while (!(await isTrue())) {
    if (performance.now() > end) throw new Error("the condition did not hold within 30 seconds");
    await wait(20);
  }
}

/** Waits until all charges of the journal are in the database, and checks that each is there exactly once. */
export async function assertCopied(dataDir: string, url: string): Promise<void> {
  const expected = [...readUsage(dataDir)].map((row) => ({
    ...usageJson(row),
    route: row.route ?? null,
    included: row.includedMilliCu,
    purchased: row.purchasedMilliCu,
    overage: row.overageMilliCu,
  }));
  const count = async (): Promise<number> =>
    Number((await runSql(url, "SELECT count(*) AS n FROM sluice.charges"))[0]?.["n"]);
  await until(async () => (await count()) >= expected.length);
  const rows = await runSql(url, "SELECT * FROM sluice.usage ORDER BY replica, seq");
  const found = rows.map((row) => ({
    id: row["id"],
    time: (row["time"] as Date).toISOString(),
    workspace_id: row["workspace_id"],
    key_id: row["key_id"],
    surface: row["surface"],
    method: row["method"],
    model: row["model"],
    request_id: row["request_id"],
    used_cu_milli: Number(row["used_cu_milli"]),
    input_tokens: Number(row["input_tokens"]),
    output_tokens: Number(row["output_tokens"]),
    estimated: row["estimated"],
    outcome: row["outcome"],
    ...(row["agent"] !== null && { agent: row["agent"] }),
    ...(row["pricing"] !== null && { pricing: row["pricing"] }),
    route: row["route"],
    included: Number(row["included_cu_milli"]),
    purchased: Number(row["purchased_cu_milli"]),
    overage: Number(row["overage_cu_milli"]),
  }));
  assert.deepEqual(found, JSON.parse(JSON.stringify(expected)));
}
