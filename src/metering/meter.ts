/**
 * The meter: reserves credit over all scopes at once, settles it into charges, answers for every milli-CU.
 *
 * It runs on the main thread alone, so that checking and taking are one step and two parallel calls can never both take
 * the last unit. Durable are the charges: a settled one is in the journal before its promise resolves. A reservation is
 * only memory, unless bytes will leave before it settles (`streamed`). A response that is not streamed does not leave
 * before its charge is on disk; a crash in between leaves nothing given and nothing owed, so no intent is needed.
 */
import type {
  ChargeLine,
  Clock,
  CuRefusal,
  KeyPrincipal,
  Log,
  Meter,
  Metrics,
  Reservation,
  Workspace,
} from "../services.ts";
import { loadBalances } from "./balances.ts";
import { CreditBook, type KeyCredit, type WorkspaceCredit } from "./credit.ts";
import { JournalFile } from "./journal-file.ts";
import { Journal } from "./journal.ts";
import { meterMetrics, type MeterMetrics } from "./metrics.ts";
import { periodOf, type Split } from "./periods.ts";
import { at, closedBy, kind, type RecordCursor } from "./records.ts";
import { OpenReservation } from "./reservation.ts";

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
export interface KeyUsage {
  readonly day: number;
  readonly month: number;
  readonly open: number;
}

/** What a workspace has drawn in the running period, milli-CU. */
export interface WorkspaceUsage {
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
    if (expired > 0) log.warn({ expired }, "released reservations that a crash left open");
  } finally {
    file.close();
  }
  const book = new CreditBook();
  const { names, newest } = loadBalances(dataDir, book);
  const behindMs = newest - clock.now();
  if (behindMs > 0) {
    log.warn(
      { behindMs },
      "the clock is behind the journal: charges count as made at its last one",
    );
  }
  const journal = await Journal.open({
    ...options,
    metrics,
    names,
    onLost: (records) => takeBack(records, book, metrics),
  });
  return new CreditMeter(options, journal, book, metrics, newest);
}

const unavailable = { kind: "unavailable" } as const;
const onDiskAtOnce = Promise.resolve();

class CreditMeter implements MeterService {
  readonly #journal: Journal;
  readonly book: CreditBook;
  readonly #metrics: MeterMetrics;
  readonly #clock: Clock;
  readonly #isAsync: boolean;
  readonly #sweeper: Disposable;
  /** The latest time seen: for metering, time never goes back. */
  #newest: number;
  #period = { start: 0, end: 0 };
  #nextIntent = 1;
  readonly #split: Split = { included: 0, purchased: 0, overage: 0 };

  constructor(
    options: MeterOptions,
    journal: Journal,
    book: CreditBook,
    metrics: MeterMetrics,
    newest: number,
  ) {
    this.#journal = journal;
    this.book = book;
    this.#metrics = metrics;
    this.#clock = options.clock;
    this.#isAsync = options.durability === "async";
    this.#newest = newest;
    this.#sweeper = options.clock.every(10_000, () => book.sweep(this.#now()));
  }

  reserve(
    principal: KeyPrincipal,
    costMilli: number,
    about: Parameters<Meter["reserve"]>[2],
  ): Reservation | CuRefusal | typeof unavailable {
    checkAmount(costMilli);
    if (!this.#journal.writable) return unavailable;
    const now = this.#now();
    const key = this.book.key(principal.key.id);
    const workspace = this.#workspace(principal.workspace.id, now);
    if (costMilli > 0 && about.force !== true) {
      const refused = refuses(principal, key, workspace, costMilli, now);
      if (refused !== undefined) return refused;
    }
    let intent = 0;
    let journalled: Promise<void> | undefined;
    if (about.streamed === true) {
      intent = this.#nextIntent++;
      journalled = this.#writeIntent(key, workspace, about, { now, intent, costMilli });
    }
    const { requestId } = about;
    return new OpenReservation(
      this,
      principal,
      key,
      workspace,
      costMilli,
      requestId,
      intent,
      journalled,
    );
  }

  #writeIntent(
    key: KeyCredit,
    workspace: WorkspaceCredit,
    about: { readonly requestId: string; readonly surface: string },
    what: { readonly now: number; readonly intent: number; readonly costMilli: number },
  ): Promise<void> {
    const journal = this.#journal;
    key.number ||= journal.nameNumber(key.id);
    workspace.number ||= journal.nameNumber(workspace.id);
    journal.intent({
      key: key.number,
      workspace: workspace.number,
      surface: journal.nameNumber(about.surface),
      time: what.now,
      intent: what.intent,
      reservedMilli: what.costMilli,
      requestId: about.requestId,
    });
    const written = journal.publish(1, false);
    return this.#isAsync ? onDiskAtOnce : written;
  }

  /** For OpenReservation alone. Throws RangeError, having changed nothing, for an amount that is no integer. */
  settle(reservation: OpenReservation, lines: readonly ChargeLine[]): Promise<void> {
    let total = 0;
    for (const line of lines) total += checkAmount(line.costMilli);
    const now = this.#now();
    const { key, workspace } = reservation;
    // What fitted when it was reserved is exact; more than that may not be.
    if (total > reservation.costMilli) checkAmount(key.month.sum(now) + key.open + total);
    if (lines.length === 0) {
      this.#end(reservation, closedBy.settled, now);
      return onDiskAtOnce;
    }
    reservation.free();
    if (!this.#journal.hasRoom(lines.length)) return Promise.reject(new Error("cannot be written"));
    workspace.roll(this.#periodStart(now));
    key.add(now, total);
    key.number ||= this.#journal.nameNumber(key.id);
    workspace.number ||= this.#journal.nameNumber(workspace.id);
    for (const line of lines) this.#charge(reservation, line, now);
    const written = this.#journal.publish(lines.length, this.book.holders === 0);
    return this.#isAsync ? onDiskAtOnce : written;
  }

  #charge(reservation: OpenReservation, line: ChargeLine, now: number): void {
    const { principal, key, workspace, intent, requestId } = reservation;
    const journal = this.#journal;
    workspace.draw(line.costMilli, principal.plan, principal.workspace, this.#split);
    journal.charge({
      key: key.number,
      workspace: workspace.number,
      surface: journal.nameNumber(line.surface),
      method: journal.nameNumber(line.method),
      model: line.model === undefined ? 0 : journal.nameNumber(line.model),
      outcome: line.outcome === undefined ? 0 : journal.nameNumber(line.outcome),
      time: now,
      split: this.#split,
      inputTokens: line.inputTokens ?? 0,
      outputTokens: line.outputTokens ?? 0,
      estimated: line.estimated === true,
      intent,
      requestId,
    });
    this.#metrics.charged(line.surface).add(line.costMilli);
  }

  release(reservation: OpenReservation): void {
    this.#end(reservation, closedBy.released, this.#now());
  }

  /** Ends a reservation that costs nothing. An intent that cannot be closed now expires at the next start. */
  #end(reservation: OpenReservation, why: number, now: number): void {
    reservation.free();
    if (reservation.intent === 0 || !this.#journal.hasRoom(1)) return;
    this.#journal.closed(now, reservation.intent, why);
    void this.#journal.publish(1, false);
  }

  get writable(): boolean {
    return this.#journal.writable;
  }

  purchasedLeft(workspace: Workspace): number {
    const known = this.book.findWorkspace(workspace.id);
    return known === undefined ? workspace.purchasedTotalCuMilli : known.purchasedLeft(workspace);
  }

  keyUsage(keyId: string): KeyUsage {
    const now = this.#now();
    const key = this.book.findKey(keyId);
    return { day: key?.day.sum(now) ?? 0, month: key?.month.sum(now) ?? 0, open: key?.open ?? 0 };
  }

  workspaceUsage(workspaceId: string): WorkspaceUsage {
    const now = this.#now();
    const { included, purchased, overage, open } = this.#workspace(workspaceId, now);
    return { periodStart: this.#periodStart(now), included, purchased, overage, open };
  }

  flush(): Promise<void> {
    return this.#journal.flush();
  }

  async close(): Promise<void> {
    this.#sweeper[Symbol.dispose]();
    await this.#journal.close();
  }

  #now(): number {
    const now = this.#clock.now();
    if (now > this.#newest) this.#newest = now;
    return this.#newest;
  }

  #periodStart(now: number): number {
    if (now >= this.#period.end) this.#period = periodOf(now);
    return this.#period.start;
  }

  #workspace(id: string, now: number): WorkspaceCredit {
    const workspace = this.book.workspace(id);
    workspace.roll(this.#periodStart(now));
    return workspace;
  }
}

/** Why `costMilli` does not fit. Of several scopes the one that takes longest to clear: plan, then 30d, then 24h. */
function refuses(
  principal: KeyPrincipal,
  key: KeyCredit,
  workspace: WorkspaceCredit,
  costMilli: number,
  now: number,
): CuRefusal | undefined {
  const { plan } = principal;
  if (!workspace.fits(costMilli, plan, principal.workspace)) {
    return refusal(undefined, workspace.used, workspace.limit(plan, principal.workspace));
  }
  const month = key.month.sum(now) + key.open;
  const monthLimit = principal.key.cuLimit30dMilli ?? Number.MAX_SAFE_INTEGER;
  if (month + costMilli > monthLimit) return refusal("30d", month, monthLimit);
  const day = key.day.sum(now) + key.open;
  const dayLimit = principal.key.cuLimit24hMilli ?? Number.MAX_SAFE_INTEGER;
  if (day + costMilli > dayLimit) return refusal("24h", day, dayLimit);
  return undefined;
}

function refusal(window: CuRefusal["window"], usedCuMilli: number, limit: number): CuRefusal {
  const limitCuMilli = Math.min(limit, Number.MAX_SAFE_INTEGER);
  return { kind: "refused", window, usedCuMilli, limitCuMilli };
}

/** Sums stay exact only as long as every amount is a safe integer. A caller that passes anything else has a bug. */
function checkAmount(milli: number): number {
  if (Number.isSafeInteger(milli) && milli >= 0) return milli;
  throw new RangeError(`${milli} is not an amount in milli-CU`);
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
