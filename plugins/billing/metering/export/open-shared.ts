/**
 * Starts the usage export of gateways that share credit in PostgreSQL. Every gateway runs an exporter, and the one that
 * holds the job delivers the charges of all.
 */
import { placesPerCommit } from "../charge-number.ts";
import type { Clock, Log, Metrics, Postgres } from "sluice-gateway/plugin";
import { number } from "sluice-gateway/store";
import type { UsageExportConfig } from "../options.ts";
import { readCursor } from "./cursor.ts";
import { eventOf, maxChars, type EventForm } from "./event.ts";
import { Exporter, type Batch } from "./exporter.ts";
import { exportMetrics } from "./metrics.ts";
import { send } from "./send.ts";
import { readChargedReplicas, readSharedCharges } from "./shared-charges.ts";
import { createSharedJob } from "./shared-job.ts";
import { parsePosition, positionText, start, type SharedPosition } from "./shared-position.ts";

/** Maximum number of charges in a batch, because batches are created on the main thread. */
const maxBatch = 1_000;

export function openSharedExport(options: {
  readonly database: Postgres;
  /** Id of this start of this gateway. */
  readonly holder: string;
  readonly settings: UsageExportConfig;
  /** The data folder, which may have the position of a gateway that exported its own journal. */
  readonly dataDir: string;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
}): { close(): Promise<void> } {
  const { database, holder, settings, dataDir, clock, log, metrics } = options;
  const { url, headers, everyMs, batch, source, type, subject } = settings;
  const job = createSharedJob(database, "usage export", holder);
  const exporter = new Exporter({
    // The position is in the database, and `read` gets it with the job.
    cursor: { after: undefined, moveTo: (position) => job.moveTo(position) },
    async read(_after, limit) {
      const held = await job.take();
      if (held === undefined) return undefined;
      const position =
        held.position === undefined
          ? await firstPosition(database, dataDir)
          : parsePosition(held.position);
      if (position === undefined)
        throw new Error(
          `invalid position "${held.position}" in sluice.jobs, expected a text such as cur_17,18:2503`,
        );
      return readBatch(database, position, limit, { source, type, subject });
    },
    send: (events, signal) => send({ url, headers }, events, signal),
    batch: Math.min(batch, maxBatch),
    everyMs,
    clock,
    log,
    metrics: exportMetrics(metrics),
  });
  return {
    async close() {
      await exporter.close();
      // If this fails, another gateway takes over when this gateway's hold on the job expires.
      await job.release().catch(() => {});
    },
  };
}

/** Returns the next charges after a position as events. Undefined if there are none. */
async function readBatch(
  database: Postgres,
  position: SharedPosition,
  limit: number,
  form: EventForm,
): Promise<Batch | undefined> {
  const replicas = await readChargedReplicas(database);
  const found = await readSharedCharges(database, replicas, position, limit);
  const events: string[] = [];
  let chars = 0;
  for (const { charge } of found.charges.slice(0, limit)) {
    const event = JSON.stringify(eventOf(charge, form));
    chars += event.length;
    if (events.length > 0 && chars > maxChars) break;
    events.push(event);
  }
  const taken = found.charges.slice(0, events.length);
  const [first] = taken;
  if (first === undefined) return undefined;
  return {
    count: taken.length,
    first: first.charge.id,
    last: positionText(found.positionAfter(taken.length)),
    since: Math.min(...taken.map(({ charge }) => Date.parse(charge.time))),
    more: found.hasMore || taken.length < found.charges.length,
    events: Buffer.from(`[${events.join(",")}]`),
  };
}

/**
 * Returns the position at which the first export begins. If this gateway has delivered the charges of its own journal
 * before, and copied its charges, it begins after those.
 */
async function firstPosition(database: Postgres, dataDir: string): Promise<SharedPosition> {
  const delivered = readCursor(dataDir) ?? "";
  const [, journal, commit, place] = /^chg_([0-9a-f]+)_(\d{1,15})_(\d{1,9})$/.exec(delivered) ?? [];
  if (journal === undefined) return start;
  const [row] = await database.query(
    "export",
    "SELECT id FROM sluice.replicas WHERE journal = $1",
    [journal],
  );
  if (row === undefined) return start;
  return {
    ...start,
    read: new Map([[number(row, "id"), Number(commit) * placesPerCommit + Number(place)]]),
  };
}
