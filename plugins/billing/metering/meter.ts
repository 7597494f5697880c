/** Opens the meter: the journal brought in order after whatever happened, balances known, the thread started. */
import type { ApiKey, Workspace } from "../../../src/services/accounts.ts";
import type { Clock } from "../../../src/services/clock.ts";
import type { Log } from "../../../src/services/log.ts";
import type { Meter } from "../../../src/services/meter.ts";
import type { Metrics } from "../../../src/services/metrics.ts";
import { loadBalances } from "./balances.ts";
import { CreditMeter } from "./credit-meter.ts";
import { CreditBook } from "./credit.ts";
import { JournalFile } from "./journal-file.ts";
import { Journal } from "./journal.ts";
import { meterMetrics, type MeterMetrics } from "./metrics.ts";
import { periodOf } from "./periods.ts";
import { at, kind, type RecordCursor } from "./records.ts";

export interface MeterOptions {
  /** The folder of the journal. One meter a folder: the caller holds its lock (src/store/lock.ts). */
  readonly dataDir: string;
  readonly durability: "settled" | "async";
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
  /** Tests only: SQLITE_FULL beyond so many pages of 4 KiB. */
  readonly maxPages?: number;
}

/** What a key has used, milli-CU. */
interface KeyUsage {
  readonly day: number;
  readonly month: number;
  readonly open: number;
}

/** One rolling window of a key. Times are milliseconds since 1970 and hold if nothing more is charged. */
export interface WindowState {
  /** Milli-CU. */
  readonly used: number;
  /** Undefined: no limit. */
  readonly limit: number | undefined;
  /** When the oldest charges leave; undefined: there are none. */
  readonly freesAt: number | undefined;
  /** When there is room for the smallest charge again; undefined: there is now. */
  readonly roomAt: number | undefined;
  /** When nothing counts any more; undefined: nothing does. */
  readonly emptyAt: number | undefined;
}

export interface KeyWindows {
  readonly day: WindowState;
  readonly month: WindowState;
  /** Reserved and not settled, milli-CU: counts in both. */
  readonly open: number;
}

/** What a workspace has drawn in the running period, milli-CU. */
interface WorkspaceUsage {
  /** Milliseconds since 1970. */
  readonly periodStart: number;
  readonly included: number;
  readonly purchased: number;
  readonly overage: number;
  readonly open: number;
}

export interface MeterService extends Meter {
  /** False while the journal cannot be written: then `reserve` answers `unavailable`. */
  readonly writable: boolean;
  /** What is left of the balance that the workspace bought, milli-CU. */
  purchasedLeft(workspace: Workspace): number;
  keyUsage(keyId: string): KeyUsage;
  /** How full a key's windows are and when they clear. Walks through both windows: for people, not for requests. */
  keyWindows(key: Pick<ApiKey, "id" | "cuLimit24hMilli" | "cuLimit30dMilli">): KeyWindows;
  workspaceUsage(workspaceId: string): WorkspaceUsage;
  /** Resolves when all charges made until now are on disk; rejects when some could not be written. */
  flush(): Promise<void>;
  /** Writes what there is and ends the journal's thread. */
  close(): Promise<void>;
}

/** Opens the journal, ends what a crash left open, and knows all balances. Rejects with StoreError. */
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

/** Undoes charges that will never be on disk: those who made them have been told that they charge nothing. */
function takeBack(records: RecordCursor, book: CreditBook, metrics: MeterMetrics): void {
  const { keys, workspaces } = book.byNumber();
  while (records.next()) {
    if (records.kind !== kind.charge) continue;
    const time = records.float(at.charge.time);
    const cost = records.costMilli;
    keys.get(records.uint(at.charge.key))?.takeBack(time, cost);
    workspaces.get(records.uint(at.charge.workspace))?.takeBack(periodOf(time).start, {
      included: records.float(at.charge.included),
      purchased: records.float(at.charge.purchased),
      overage: records.float(at.charge.overage),
    });
    metrics.lost.add(cost);
  }
}
