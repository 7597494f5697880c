/** Starts the copy of the charges in PostgreSQL. */
import { setTimeout as wait } from "node:timers/promises";
import { openComputePool } from "sluice-gateway/compute";
import { threadModule } from "sluice-gateway/package-files";
import type { Clock, Log, Metrics, Postgres, Seal } from "sluice-gateway/plugin";
import { explainPostgres, postgresError, PostgresFailure } from "sluice-gateway/postgres";
import { StoreError } from "sluice-gateway/store";
import { readBatch, type BatchJob } from "./batch.ts";
import { createChargeStore, type ChargeStore, type RegisterResult } from "./charge-store.ts";
import { checkContinuation, journalId } from "./journal-state.ts";
import { shippingMetrics } from "./metrics.ts";
import { checkSchema } from "./schema-version.ts";
import { migrations } from "./schema.ts";
import { Shipper } from "./shipper.ts";

export interface ShippingOptions {
  /** The journal of this folder must exist. */
  readonly dataDir: string;
  readonly database: Postgres;
  readonly seal: Seal;
  /** Version of Sluice. */
  readonly version: string;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
}

const batchModule = threadModule("plugins/billing/shipping/batch");

/**
 * Registers this gateway in the database and starts the copy. Rejects with StoreError if the database cannot be
 * reached, has other tables, or belongs to another deployment or gateway.
 */
export async function openShipping(options: ShippingOptions): Promise<{ close(): Promise<void> }> {
  const { dataDir, database, version, clock, log } = options;
  const metrics = shippingMetrics(options.metrics);
  const store = createChargeStore(database);
  const journal = journalId(dataDir);
  const register = (): Promise<RegisterResult> => store.register(journal, version);
  const first = await registered(options, store, journal, register);
  // Its own thread, so that reports and exports do not delay the copy.
  const threads = openComputePool({ clock, metrics: options.metrics, threads: 1 });
  const shipper = new Shipper({
    store: { ...store, register },
    async read(after) {
      const input: BatchJob = { dataDir, after };
      const done = await threads.run({ module: batchModule, input, transfer: [] });
      if (!done.ok) throw new Error(`cannot read the next charges: ${done.reason}`);
      return done.bytes && readBatch(done.bytes);
    },
    first,
    clock,
    log,
    metrics,
  });
  return {
    async close() {
      await shipper.close();
      await threads.close();
    },
  };
}

/** Time for which a start waits for a database that cannot be reached: it may be starting, too. */
const reachMs = 5_000;
const reachEveryMs = 250;

/** Repeats `ask` while the database cannot be reached, up to `reachMs`. */
async function whenReachable(ask: () => Promise<void>): Promise<void> {
  const end = performance.now() + reachMs;
  for (;;) {
    try {
      return await ask();
    } catch (error) {
      if (
        error instanceof StoreError ||
        PostgresFailure.from(error).isRefused ||
        performance.now() > end
      )
        throw error;
      await wait(reachEveryMs);
    }
  }
}

async function registered(
  { dataDir, database, seal }: ShippingOptions,
  store: ChargeStore,
  journal: string,
  register: () => Promise<RegisterResult>,
): Promise<RegisterResult & { kind: "registered" }> {
  try {
    await whenReachable(() => checkSchema(database, migrations, seal));
    checkContinuation(dataDir, await store.find(journal));
    const result = await register();
    if (result.kind === "registered") return result;
    throw postgresError(
      "SLUICE_STORE_IN_USE",
      `another gateway, "${result.other}", uses the PostgreSQL database`,
      "Stop that gateway, or use another database. A gateway that was killed counts as ended after 10 seconds.",
    );
  } catch (error) {
    throw explainPostgres(error, database.place);
  }
}
