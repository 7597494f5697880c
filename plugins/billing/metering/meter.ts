/** Opens the meter: recovers the journal, loads all balances and starts the journal thread. */
import type { Clock, Log, Metrics } from "sluice-gateway/plugin";
import type { KeyWindows, Metering, Workspace, WorkspaceUsage } from "sluice-gateway/services";
import { loadBalances } from "./balances.ts";
import { CreditMeter } from "./credit-meter.ts";
import { CreditBook } from "./credit.ts";
import { JournalFile } from "./journal-file.ts";
import { Journal } from "./journal.ts";
import type { Durability } from "./options.ts";
import { meterMetrics, type MeterMetrics } from "./metrics.ts";
import { periodOf } from "./periods.ts";
import { at, kind, type RecordCursor } from "./records.ts";

export interface MeterOptions {
  /** Folder of the journal. Only one meter may use a folder; the caller holds its lock (src/store/lock.ts). */
  readonly dataDir: string;
  readonly durability: Durability;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
  /** Only for tests: maximum size of the journal in pages of 4 KiB; writes beyond it fail with SQLITE_FULL. */
  readonly maxPages?: number;
}

/** Credit that a key has used, in milli-CU. */
interface KeyUsage {
  readonly dayMilliCu: number;
  readonly monthMilliCu: number;
  readonly openMilliCu: number;
}

/** The meter of one gateway. Its book is in memory, so no result has to be requested from a database. */
export interface MeterService extends Omit<Metering, "usage" | "outageMs"> {
  reserve(
    ...args: Parameters<Metering["reserve"]>
  ): Exclude<ReturnType<Metering["reserve"]>, Promise<unknown>>;
  keyWindows(...args: Parameters<Metering["keyWindows"]>): KeyWindows;
  workspaceUsage(workspaceId: string): WorkspaceUsage;
  purchasedLeft(workspace: Workspace): number;
  /** False while the journal cannot be written; `reserve` then returns `unavailable`. */
  readonly writable: boolean;
  keyUsage(keyId: string): KeyUsage;
  /** Resolves when all charges made so far are on disk. Rejects if some could not be written. */
  flush(): Promise<void>;
  /** Writes all pending records and ends the journal thread. */
  close(): Promise<void>;
}

/** Opens the journal, expires the intents that a crash left open, and loads all balances. Rejects with StoreError. */
export async function openMeter(options: MeterOptions): Promise<MeterService> {
  const { dataDir, clock, log } = options;
  const metrics = meterMetrics(options.metrics);
  const file = JournalFile.open(dataDir, options.maxPages);
  try {
    const { expired } = file.recover(clock.now());
    metrics.expired.add(expired);
    if (expired > 0) log.warn({ expired }, "released reservations that were left open by a crash");
  } finally {
    file.close();
  }
  const book = new CreditBook();
  const { names, newest } = loadBalances(dataDir, book);
  const behindMs = newest - clock.now();
  if (behindMs > 0) {
    log.warn(
      { behindMs },
      "the clock is behind the last charge in the journal: new charges get the time of the last one",
    );
  }
  const journal = await Journal.open({
    ...options,
    metrics,
    names,
    onLost: (records) => takeBack(records, book, metrics),
  });
  return new CreditMeter({ ...options, journal, book, metrics, newest });
}

/** Reverses charges that will never be on disk. Their `settle` promises reject, so nothing is charged. */
function takeBack(records: RecordCursor, book: CreditBook, metrics: MeterMetrics): void {
  const { keys, workspaces } = book.byNumber();
  while (records.next()) {
    if (records.kind !== kind.charge) continue;
    const time = records.float(at.charge.time);
    const costMilliCu = records.costMilliCu;
    keys.get(records.uint(at.charge.key))?.takeBack(time, costMilliCu);
    workspaces.get(records.uint(at.charge.workspace))?.takeBack(periodOf(time).start, {
      includedMilliCu: records.float(at.charge.included),
      purchasedMilliCu: records.float(at.charge.purchased),
      overageMilliCu: records.float(at.charge.overage),
    });
    metrics.lost.add(costMilliCu);
  }
}
