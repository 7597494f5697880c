/** Starts the copy of the charges in PostgreSQL. */
import { openComputePool } from "sluice-gateway/compute";
import { threadModule } from "sluice-gateway/package-files";
import type { Clock, Log, Metrics, Postgres } from "sluice-gateway/plugin";
import { explainPostgres, postgresError } from "sluice-gateway/postgres";
import { readBatch, type BatchJob } from "./batch.ts";
import { createChargeStore, type ChargeStore, type RegisterResult } from "./charge-store.ts";
import { checkContinuation, journalId } from "./journal-state.ts";
import { shippingMetrics } from "./metrics.ts";
import { Shipper } from "./shipper.ts";

export interface ShippingOptions {
  /** The journal of this folder must exist. */
  readonly dataDir: string;
  readonly database: Postgres;
  /** Version of Sluice. */
  readonly version: string;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
}

/** Time limit of a batch. With a smaller limit, a batch that is only slow would be sent again and again. */
const statementMs = 10_000;
const batchModule = threadModule("plugins/billing/shipping/batch");

/**
 * Registers this gateway in the database, whose tables have been checked, and starts the copy. Rejects with StoreError if
 * the database cannot be reached, or belongs to another gateway.
 */
export async function openShipping(options: ShippingOptions): Promise<{ close(): Promise<void> }> {
  const { dataDir, database, version, clock, log } = options;
  const metrics = shippingMetrics(options.metrics);
  // A batch has many charges, and nobody waits for it.
  const store = createChargeStore(database.separate({ connections: 1, statementMs }));
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

async function registered(
  { dataDir, database, log }: ShippingOptions,
  store: ChargeStore,
  journal: string,
  register: () => Promise<RegisterResult>,
): Promise<RegisterResult & { kind: "registered" }> {
  try {
    checkContinuation(dataDir, await store.find(journal));
    const gateways = await store.sharers();
    const result = await register();
    if (result.kind === "registered") {
      if (gateways.length > 0) {
        log.warn(
          { gateways },
          "the journal does not count what other gateways have charged within 30 days: limits can be exceeded",
        );
      }
      return result;
    }
    throw postgresError(
      "SLUICE_STORE_IN_USE",
      `another gateway, "${result.other}", uses the PostgreSQL database`,
      "Stop that gateway, or use another database. A gateway that was killed counts as ended after 10 seconds.",
    );
  } catch (error) {
    throw explainPostgres(error, database.place);
  }
}
