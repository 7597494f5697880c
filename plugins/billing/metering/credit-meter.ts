/**
 * The meter reserves credit in all scopes at once, and reports how much is used. The reservation object settles or
 * releases it (reservation.ts).
 *
 * It runs only on the main thread. Checking a limit and reserving credit are therefore one step, and two parallel calls
 * can never both take the last unit. Charges are durable: a settled charge is in the journal before its promise
 * resolves. A reservation exists only in memory. A crash ends it, and nothing is charged for an answer that no client
 * has received completely. If bytes are sent before a reservation settles (`streamed`), its intent is also written to
 * the journal, so that the next start finds the streams that the crash interrupted. No byte waits for this write: an
 * intent that is lost in a crash and an intent that expires lead to the same bill.
 */
import type { Clock, Log } from "sluice-gateway/plugin";
import type {
  ApiKey,
  CuRefusal,
  KeyPrincipal,
  KeyWindows,
  Meter,
  MeterUnavailable,
  Reservation,
  ReservedFor,
  Workspace,
  WorkspaceUsage,
} from "sluice-gateway/services";
import { isAmount, notAnAmount } from "./charge-lines.ts";
import { chargeText } from "./charge-text.ts";
import { maxExactMilliCu, refusalOf } from "./credit-limits.ts";
import type { CreditBook, KeyCredit, WorkspaceCredit } from "./credit.ts";
import type { Journal } from "./journal.ts";
import { MeterTime } from "./meter-time.ts";
import type { MeterMetrics } from "./metrics.ts";
import type { Durability } from "./options.ts";
import { periodOf } from "./periods.ts";
import { clockIsBehind, ignoredMs } from "./redate.ts";
import { CreditReservation, type ReservationDeps, type ReservedCredit } from "./reservation.ts";
import { windowState } from "./windows.ts";

interface CreditMeterDeps {
  readonly journal: Journal;
  readonly book: CreditBook;
  readonly metrics: MeterMetrics;
  readonly clock: Clock;
  readonly durability: Durability;
  /** Time of the newest record in the journal, in milliseconds since 1970. */
  readonly newest: number;
  readonly log: Log;
  /** Returns true if a correction would move charges of a clock that ran ahead. Throws StoreError. */
  canCorrect(): boolean;
  /** Corrects a journal that has been closed, and opens it again. Rejects with StoreError. */
  reopen(): Promise<{ readonly journal: Journal; readonly newest: number }>;
}

/** Interval between two attempts to correct the journal. */
const correctMs = 60_000;

const unavailable: MeterUnavailable = {
  kind: "unavailable",
  reason: "the journal cannot be written",
};

export class CreditMeter implements Meter {
  readonly #deps: CreditMeterDeps;
  readonly #book: CreditBook;
  readonly #time: MeterTime;
  /** The objects that every reservation gets. */
  readonly #shared: ReservationDeps;
  readonly #sweeper: Disposable;
  readonly #sampler: Disposable;
  #nextIntent = 1;
  #nextCorrection = 0;

  constructor(deps: CreditMeterDeps) {
    const { journal, book, metrics, clock, durability, newest } = deps;
    this.#deps = deps;
    this.#book = book;
    this.#time = new MeterTime(clock, newest);
    const time = this.#time;
    const isAsync = durability === "async";
    this.#shared = { journal, correcting: undefined, book, metrics, time, isAsync };
    this.#sweeper = clock.every(10_000, () => book.sweep(this.#time.now()));
    this.#sampler = clock.every(1_000, () => {
      metrics.openReservations.set(book.holders);
      metrics.clockBehind.set(time.behindMs / 1000);
      if (time.behindMs > ignoredMs) this.#correctClock();
    });
  }

  reserve(
    principal: KeyPrincipal,
    costMilliCu: number,
    about: ReservedFor,
  ): Reservation | CuRefusal | MeterUnavailable {
    if (!isAmount(costMilliCu)) throw notAnAmount(costMilliCu);
    if (!this.writable) return unavailable;
    const now = this.#time.now();
    const key = this.#book.key(principal.key.id);
    const workspace = this.#workspace(principal.workspace.id, now);
    const refused =
      costMilliCu > 0 ? refusalOf(principal, key, workspace, costMilliCu, now) : undefined;
    if (refused === undefined) {
      return this.#hold({ principal, key, workspace, costMilliCu }, about, now);
    }
    return { ...refused, clearsAt: this.#clearsAt(principal.key, refused.window, now) };
  }

  /** Sums must stay exact, so a cost that they cannot hold is cut. The reservation can charge only what it holds. */
  reserveWithoutLimit(
    principal: KeyPrincipal,
    costMilliCu: number,
    about: ReservedFor,
  ): Reservation | MeterUnavailable {
    if (!isAmount(costMilliCu)) throw notAnAmount(costMilliCu);
    if (!this.writable) return unavailable;
    const now = this.#time.now();
    const key = this.#book.key(principal.key.id);
    const workspace = this.#workspace(principal.workspace.id, now);
    const heldMilliCu = Math.min(costMilliCu, maxExactMilliCu(key, workspace, now));
    return this.#hold({ principal, key, workspace, costMilliCu: heldMilliCu }, about, now);
  }

  #hold(
    credit: Omit<ReservedCredit, "text" | "route" | "intent">,
    about: ReservedFor,
    now: number,
  ): Reservation {
    const { key, workspace, costMilliCu } = credit;
    const intent = about.streamed === true ? this.#nextIntent++ : 0;
    if (intent !== 0) {
      this.#writeIntent(key, workspace, about, { now, intent, reservedMilliCu: costMilliCu });
    }
    const text = chargeText(about.requestId, about.agent);
    return new CreditReservation(this.#shared, { ...credit, text, route: about.route, intent });
  }

  #writeIntent(
    key: KeyCredit,
    workspace: WorkspaceCredit,
    about: { readonly requestId: string; readonly surface: string },
    what: { readonly now: number; readonly intent: number; readonly reservedMilliCu: number },
  ): void {
    const { journal } = this.#shared;
    key.number ||= journal.nameNumber(key.id);
    workspace.number ||= journal.nameNumber(workspace.id);
    journal.appendIntent({
      key: key.number,
      workspace: workspace.number,
      surface: journal.nameNumber(about.surface),
      time: what.now,
      intent: what.intent,
      reservedMilliCu: what.reservedMilliCu,
      requestId: about.requestId,
    });
    void journal.publish(1, "deferred");
  }

  get writable(): boolean {
    return this.#shared.correcting === undefined && this.#shared.journal.writable;
  }

  purchasedLeft(workspace: Workspace): number {
    const known = this.#book.findWorkspace(workspace.id);
    return known === undefined ? workspace.purchasedTotalMilliCu : known.purchasedLeft(workspace);
  }

  keyUsage(keyId: string): { dayMilliCu: number; monthMilliCu: number; openMilliCu: number } {
    const now = this.#time.now();
    const key = this.#book.findKey(keyId);
    return {
      dayMilliCu: key?.day.sum(now) ?? 0,
      monthMilliCu: key?.month.sum(now) ?? 0,
      openMilliCu: key?.openMilliCu ?? 0,
    };
  }

  keyWindows(key: Pick<ApiKey, "id" | "cuLimit24hMilli" | "cuLimit30dMilli">): KeyWindows {
    const now = this.#time.now();
    const known = this.#book.findKey(key.id);
    const openMilliCu = known?.openMilliCu ?? 0;
    return {
      day: windowState(known?.day, key.cuLimit24hMilli, openMilliCu, now),
      month: windowState(known?.month, key.cuLimit30dMilli, openMilliCu, now),
      openMilliCu,
    };
  }

  /** Returns a function for a window, because its time changes with every charge. */
  #clearsAt(key: ApiKey, window: CuRefusal["window"], refusedAt: number): CuRefusal["clearsAt"] {
    if (window === undefined) return periodOf(refusedAt).end;
    return () => {
      const { day, month } = this.keyWindows(key);
      const { roomAt, freesAt } = window === "24h" ? day : month;
      // A full window clears when it has room for the smallest charge, any other when its oldest charges leave.
      return roomAt ?? freesAt;
    };
  }

  workspaceUsage(workspaceId: string): WorkspaceUsage {
    const now = this.#time.now();
    const { includedMilliCu, purchasedMilliCu, overageMilliCu, openMilliCu } = this.#workspace(
      workspaceId,
      now,
    );
    return {
      periodStart: this.#time.periodStart(now),
      includedMilliCu,
      purchasedMilliCu,
      overageMilliCu,
      openMilliCu,
    };
  }

  flush(): Promise<void> {
    return this.#shared.journal.flush();
  }

  async close(): Promise<void> {
    this.#sweeper[Symbol.dispose]();
    this.#sampler[Symbol.dispose]();
    await this.#shared.correcting;
    await this.#shared.journal.close();
  }

  /** The clock is behind the charges. If it ran ahead before, they are moved to the present. */
  #correctClock(): void {
    const { clock, log } = this.#deps;
    if (this.#shared.correcting !== undefined || clock.monotonic() < this.#nextCorrection) return;
    this.#nextCorrection = clock.monotonic() + correctMs;
    try {
      if (this.#deps.canCorrect()) this.#shared.correcting = this.#correct();
      else log.error({ behindMs: this.#time.behindMs }, clockIsBehind);
    } catch (error) {
      log.error({ err: error }, "cannot read the journal to correct the times of charges");
    }
  }

  /** Reservations are refused and charges wait until the journal is open again. Never rejects. */
  async #correct(): Promise<void> {
    try {
      await this.#shared.journal.close();
      const { journal, newest } = await this.#deps.reopen();
      this.#shared.journal = journal;
      this.#time.moveTo(newest);
    } catch (error) {
      this.#deps.log.error(
        { err: error },
        "the journal could not be corrected; restart the gateway",
      );
    }
    this.#shared.correcting = undefined;
  }

  #workspace(id: string, now: number): WorkspaceCredit {
    const workspace = this.#book.workspace(id);
    workspace.roll(this.#time.periodStart(now));
    return workspace;
  }
}
