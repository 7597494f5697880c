/** Opens the meter: recovers the journal, loads all balances and starts the journal thread. */
import type { Clock, Log, Metrics } from "sluice-gateway/plugin";
import type { KeyWindows, Metering, Workspace, WorkspaceUsage } from "sluice-gateway/services";
import { loadBalances } from "./balances.ts";
import { CreditMeter } from "./credit-meter.ts";
import { CreditBook } from "./credit.ts";
import { JournalFile } from "./journal-file.ts";
import { Journal } from "./journal.ts";
import type { Durability } from "./options.ts";
import { openJournalReader } from "./journal-reader.ts";
import { meterMetrics, type MeterMetrics } from "./metrics.ts";
import { periodOf } from "./periods.ts";
import { at, kind, type RecordCursor } from "./records.ts";
import { clockIsBehind, findFutureCommits, ignoredMs } from "./redate.ts";

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
  const book = new CreditBook();
  const file = JournalFile.open(dataDir, options.maxPages);
  try {
    const { expired } = file.recover(clock.now());
    metrics.expired.add(expired);
    if (expired > 0) log.warn({ expired }, "released reservations that were left open by a crash");
    correct(file, options, metrics);
  } finally {
    file.close();
  }
  const opened = await openJournal(options, book, metrics);
  const behindMs = opened.newest - clock.now();
  if (behindMs > ignoredMs) log.error({ behindMs }, clockIsBehind);
  return new CreditMeter({
    ...options,
    ...opened,
    book,
    metrics,
    canCorrect() {
      const db = openJournalReader(dataDir);
      try {
        return findFutureCommits(db, clock.now()) !== undefined;
      } finally {
        db.close();
      }
    },
    reopen() {
      const closed = JournalFile.open(dataDir, options.maxPages);
      try {
        correct(closed, options, metrics);
      } finally {
        closed.close();
      }
      book.clear();
      return openJournal(options, book, metrics);
    },
  });
}

/** Moves the charges of a clock that ran ahead to the present. Throws StoreError. */
function correct(
  file: JournalFile,
  { clock, log }: Pick<MeterOptions, "clock" | "log">,
  metrics: MeterMetrics,
): void {
  const future = file.correct(clock.now());
  if (future === undefined) return;
  const { seq, commits, from, to, present } = future;
  metrics.redated.add(commits);
  const isoTime = (time: number): string => new Date(time).toISOString();
  log.warn(
    { commits, firstCommit: seq, from: isoTime(from), to: isoTime(to), now: isoTime(present) },
    "the clock of this host ran ahead: the charges that it dated into the future have the present time now",
  );
}

/** Loads the balances into `book`, and starts the journal thread. */
async function openJournal(
  options: MeterOptions,
  book: CreditBook,
  metrics: MeterMetrics,
): Promise<{ readonly journal: Journal; readonly newest: number }> {
  const { names, newest } = loadBalances(options.dataDir, book);
  const onLost = (records: RecordCursor): void => takeBack(records, book, metrics);
  return { journal: await Journal.open({ ...options, metrics, names, onLost }), newest };
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
