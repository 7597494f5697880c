import type { Clock, Log, Metrics, Threads } from "sluice-gateway/plugin";
import type {
  KeyPrincipal,
  KeyWindows,
  Metering,
  MeterUnavailable,
  Reservation,
  ReservedFor,
  Workspace,
  WorkspaceUsage,
} from "sluice-gateway/services";
import { LeasedMeter } from "../leases/leased-meter.ts";
import { outstanding } from "../leases/authority.ts";
import { MemoryLedger } from "../leases/memory-ledger.ts";
import { currentMonth, drawnIn, purchasedLeftIn, type CurrentMonth } from "../leases/months.ts";
import { loadBalances } from "./balances.ts";
import type { Recorded } from "./charge-batches.ts";
import { JournalFile } from "./journal-file.ts";
import { openJournalReader } from "./journal-reader.ts";
import { Journal } from "./journal.ts";
import { LocalLink } from "./local-link.ts";
import { MeterTime } from "./meter-time.ts";
import { meterMetrics, type MeterMetrics } from "./metrics.ts";
import type { Durability } from "./options.ts";
import { RecordEncoder } from "./record-encoder.ts";
import { clockIsBehind, findFutureCommits, ignoredMs } from "./redate.ts";
import { serveLedger } from "./thread-credit.ts";
import { keyWindowsOf } from "./windows.ts";

export interface MeterOptions {
  /** Folder of the journal. Only one meter may use a folder; the caller holds its lock (src/store/lock.ts). */
  readonly dataDir: string;
  readonly durability: Durability;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
  /** The threads that serve, which get their credit from this meter. Undefined if there are none. */
  readonly threads?: Threads | undefined;
  /** Only for tests: see `JournalFile.open`. */
  readonly maxPages?: number;
}

const correctMs = 60_000;

const unavailable: MeterUnavailable = {
  kind: "unavailable",
  reason: "the journal cannot be written",
};

/** Opens the journal, expires the intents that a crash left open, and loads all balances. Rejects with StoreError. */
export async function openMeter(options: MeterOptions): Promise<MeterService> {
  const { dataDir, clock, log, durability, threads } = options;
  const metrics = meterMetrics(options.metrics);
  {
    using file = JournalFile.open(dataDir, options.maxPages);
    const { expired } = file.recover(clock.now());
    metrics.expired.add(expired);
    if (expired > 0) log.warn({ expired }, "released reservations that were left open by a crash");
    correct(file, options, metrics);
  }
  const time = new MeterTime(clock);
  const ledger = new MemoryLedger(() => time.now(), threads === undefined);
  const open = async (): Promise<Recorded> => {
    const { newest, names, draws } = loadBalances(dataDir, ledger);
    time.moveTo(newest);
    const journal = await Journal.open({ ...options, metrics });
    return { journal, draws, encoder: new RecordEncoder(names, journal.records) };
  };
  const isAsync = durability === "async";
  const recorded = await open();
  const link = new LocalLink({ recorded, ledger, time, clock, log, metrics, isAsync });
  if (time.behindMs > ignoredMs) log.error({ behindMs: time.behindMs }, clockIsBehind);
  const reopen = (): Promise<Recorded> => {
    {
      using closed = JournalFile.open(dataDir, options.maxPages);
      correct(closed, options, metrics);
    }
    return open();
  };
  const serving = threads && serveLedger(threads, ledger, link, log);
  return new MeterService(options, { link, ledger, time, metrics, reopen, serving });
}

/** Throws StoreError. */
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

interface MeterServiceDeps {
  readonly link: LocalLink;
  readonly ledger: MemoryLedger;
  readonly time: MeterTime;
  readonly metrics: MeterMetrics;
  /** Corrects a journal that has been closed, and opens it again. Rejects with StoreError. */
  readonly reopen: () => Promise<Recorded>;
  readonly serving: Disposable | undefined;
}

/** Meters the requests of a gateway that is alone, and reports what is left of each limit. */
export class MeterService extends LeasedMeter implements Omit<Metering, "usage" | "outageMs"> {
  readonly #options: MeterOptions;
  readonly #deps: MeterServiceDeps;
  readonly #clockCheck: Disposable;
  #nextCorrection = 0;

  constructor(options: MeterOptions, deps: MeterServiceDeps) {
    const { link, metrics } = deps;
    super({ link, metrics, isAsync: options.durability === "async", unavailable });
    this.#options = options;
    this.#deps = deps;
    this.#clockCheck = options.clock.every(1_000, () => this.#checkClock());
  }

  /** Sums must stay exact, so a cost that they cannot hold is cut. The reservation can charge only what it holds. */
  override reserveWithoutLimit(
    principal: KeyPrincipal,
    costMilliCu: number,
    about: ReservedFor,
  ): Reservation | MeterUnavailable {
    const { key, workspace } = principal;
    const usedMilliCu = Math.max(
      this.#deps.ledger.scopes.get(key.id)?.month.sum(this.#deps.time.now()) ?? 0,
      this.#monthOf(workspace.id).sumMilliCu + this.#openIn(workspace.id),
    );
    const leftMilliCu = Math.max(0, Number.MAX_SAFE_INTEGER - usedMilliCu);
    return super.reserveWithoutLimit(principal, Math.min(costMilliCu, leftMilliCu), about);
  }

  keyWindows(key: Parameters<Metering["keyWindows"]>[0]): KeyWindows {
    const { ledger, time } = this.#deps;
    return keyWindowsOf(key, ledger.scopes.get(key.id), this.#openIn(key.id), time.now());
  }

  workspaceUsage(workspaceId: string): WorkspaceUsage {
    const month = this.#monthOf(workspaceId);
    const openMilliCu = this.#openIn(workspaceId);
    return { periodStart: month.start, ...drawnIn(month), openMilliCu };
  }

  purchasedLeft({ id, purchasedTotalMilliCu }: Workspace): number {
    return purchasedLeftIn(this.#monthOf(id), purchasedTotalMilliCu);
  }

  #monthOf(workspaceId: string): CurrentMonth {
    const { link, ledger, time } = this.#deps;
    const {
      months = new Map(),
      fixed = [],
      limits = link.batches.limitsOf(workspaceId),
    } = ledger.scopes.get(workspaceId) ?? {};
    return currentMonth(time.now(), months, fixed, limits);
  }

  /** Returns the credit that is reserved, or charged and not on disk yet. */
  #openIn(scope: string): number {
    const { link, ledger, serving } = this.#deps;
    let openMilliCu = serving === undefined ? -link.credit.slackOf(scope) : 0;
    for (const lease of ledger.scopes.get(scope)?.leases.values() ?? []) {
      openMilliCu += outstanding(lease);
      if (serving !== undefined) openMilliCu -= Math.min(lease.slack, outstanding(lease));
    }
    return Math.max(0, openMilliCu);
  }

  /** Resolves when all charges made so far are on disk. Rejects if some could not be written. */
  flush(): Promise<void> {
    return this.#deps.link.batches.flush();
  }

  override close(): Promise<void> {
    this.#clockCheck[Symbol.dispose]();
    this.#deps.serving?.[Symbol.dispose]();
    return super.close();
  }

  /** The clock is behind the charges. If it ran ahead before, they are moved to the present. */
  #checkClock(): void {
    const { link, metrics, time, reopen } = this.#deps;
    const { clock, log, dataDir } = this.#options;
    metrics.clockBehind.set(time.behindMs / 1000);
    if (time.behindMs <= ignoredMs || !link.isAvailable) return;
    if (clock.monotonic() < this.#nextCorrection) return;
    this.#nextCorrection = clock.monotonic() + correctMs;
    try {
      if (!canCorrect(dataDir, clock.now())) {
        return log.error({ behindMs: time.behindMs }, clockIsBehind);
      }
    } catch (error) {
      return log.error({ err: error }, "cannot read the journal to correct the times of charges");
    }
    link.correct(reopen, (error) =>
      log.error({ err: error }, "the journal could not be corrected; restart the gateway"),
    );
  }
}

/** Throws StoreError. */
function canCorrect(dataDir: string, now: number): boolean {
  using db = openJournalReader(dataDir);
  return findFutureCommits(db, now) !== undefined;
}
