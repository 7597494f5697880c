/**
 * The meter reserves credit in all scopes at once, settles reservations into charges, and accounts for every milli-CU.
 *
 * It runs only on the main thread. Checking a limit and reserving credit are therefore one step, and two parallel calls
 * can never both take the last unit. Charges are durable: a settled charge is in the journal before its promise
 * resolves. A reservation exists only in memory. A crash ends it, and nothing is charged for an answer that no client
 * has received completely. If bytes leave before a reservation settles (`streamed`), its intent is written to the
 * journal too, so that the next start finds the streams that the crash interrupted. No byte waits for this write: an
 * intent that is lost in a crash and an intent that expires lead to the same bill.
 */
import type { Clock } from "sluice-gateway/plugin";
import type {
  ApiKey,
  ChargeLine,
  CuRefusal,
  KeyPrincipal,
  KeyWindows,
  Meter,
  Reservation,
  WindowState,
  Workspace,
} from "sluice-gateway/services";
import type { CreditBook, KeyCredit, WorkspaceCredit } from "./credit.ts";
import type { CommitPriority, Journal } from "./journal.ts";
import type { MeterMetrics } from "./metrics.ts";
import { periodOf, type Split } from "./periods.ts";
import { chargeText, withPricing } from "./charge-text.ts";
import { closeReason } from "./records.ts";
import { OpenReservation } from "./reservation.ts";
import type { RollingWindow } from "./windows.ts";

interface CreditMeterDeps {
  readonly journal: Journal;
  readonly book: CreditBook;
  readonly metrics: MeterMetrics;
  readonly clock: Clock;
  readonly durability: "settled" | "async";
  /** Time of the newest record in the journal, in milliseconds since 1970. */
  readonly newest: number;
}

const unavailable = { kind: "unavailable" } as const;
const resolved = Promise.resolve();

export class CreditMeter implements Meter {
  readonly #journal: Journal;
  readonly book: CreditBook;
  readonly #metrics: MeterMetrics;
  readonly #clock: Clock;
  readonly #isAsync: boolean;
  readonly #sweeper: Disposable;
  readonly #sampler: Disposable;
  /** The latest time seen. The meter's time never goes back. */
  #newest: number;
  #period = { start: 0, end: 0 };
  #nextIntent = 1;
  readonly #split: Split = { included: 0, purchased: 0, overage: 0 };

  constructor(parts: CreditMeterDeps) {
    this.#journal = parts.journal;
    this.book = parts.book;
    this.#metrics = parts.metrics;
    this.#clock = parts.clock;
    this.#isAsync = parts.durability === "async";
    this.#newest = parts.newest;
    this.#sweeper = parts.clock.every(10_000, () => this.book.sweep(this.#now()));
    const { openReservations } = parts.metrics;
    this.#sampler = parts.clock.every(1_000, () => openReservations.set(this.book.holders));
  }

  reserve(
    principal: KeyPrincipal,
    costMilliCu: number,
    about: Parameters<Meter["reserve"]>[2],
  ): Reservation | CuRefusal | typeof unavailable {
    if (!isAmount(costMilliCu)) throw notAnAmount(costMilliCu);
    if (!this.#journal.writable) return unavailable;
    const now = this.#now();
    const key = this.book.key(principal.key.id);
    const workspace = this.#workspace(principal.workspace.id, now);
    if (costMilliCu > 0 && about.force !== true) {
      const refused = refusalOf(principal, key, workspace, costMilliCu, now);
      if (refused !== undefined) return refused;
    }
    // A forced reservation may exceed every limit, but sums must stay exact. It can charge only what it holds.
    const heldMilliCu =
      about.force === true
        ? Math.min(costMilliCu, maxExactMilliCu(key, workspace, now))
        : costMilliCu;
    const intent = about.streamed === true ? this.#nextIntent++ : 0;
    if (intent !== 0)
      this.#writeIntent(key, workspace, about, { now, intent, reservedMilliCu: heldMilliCu });
    const text = chargeText(about.requestId, about.agent);
    return new OpenReservation(this, principal, key, workspace, heldMilliCu, text, intent);
  }

  #writeIntent(
    key: KeyCredit,
    workspace: WorkspaceCredit,
    about: { readonly requestId: string; readonly surface: string },
    what: { readonly now: number; readonly intent: number; readonly reservedMilliCu: number },
  ): void {
    const journal = this.#journal;
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

  /**
   * Called only by OpenReservation. Its callers run in handlers of sockets and timers, where nothing catches an error.
   * A wrong amount therefore rejects, and the reservation ends without a charge.
   */
  settle(
    reservation: OpenReservation,
    given: readonly ChargeLine[],
    maxMilliCu: number,
  ): Promise<void> {
    const now = this.#now();
    const wrong = given.find((line) => !isChargeable(line));
    if (wrong !== undefined || given.length === 0) {
      this.#end(reservation, closeReason.settled, now);
      return wrong === undefined ? resolved : Promise.reject(notChargeable(wrong));
    }
    const lines = cutLines(given, maxMilliCu, (surface, milliCu) =>
      this.#metrics.cut(surface).add(milliCu),
    );
    const { key, workspace } = reservation;
    let total = 0;
    for (const line of lines) total += line.costMilli;
    reservation.free();
    if (!this.#journal.hasRoom(lines.length)) return Promise.reject(new Error("cannot be written"));
    workspace.roll(this.#periodStart(now));
    key.add(now, total);
    key.number ||= this.#journal.nameNumber(key.id);
    workspace.number ||= this.#journal.nameNumber(workspace.id);
    for (const line of lines) this.#charge(reservation, line, now);
    const written = this.#journal.publish(lines.length, this.#priority(reservation));
    return this.#isAsync ? resolved : written;
  }

  #charge(reservation: OpenReservation, line: ChargeLine, now: number): void {
    const { principal, key, workspace, intent, text } = reservation;
    const journal = this.#journal;
    workspace.draw(line.costMilli, principal.plan, principal.workspace, this.#split);
    journal.appendCharge({
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
      text: withPricing(text, line.pricing),
    });
    this.#metrics.charged(line.surface).add(line.costMilli);
  }

  release(reservation: OpenReservation): void {
    this.#end(reservation, closeReason.released, this.#now());
  }

  /** Ends a reservation without a charge. If its intent cannot be closed now, the intent expires at the next start. */
  #end(reservation: OpenReservation, why: number, now: number): void {
    reservation.free();
    if (reservation.intent === 0 || !this.#journal.hasRoom(1)) return;
    this.#journal.appendClosed(now, reservation.intent, why);
    void this.#journal.publish(1, "deferred");
  }

  /**
   * Returns `deferred` for the end of a stream, which may be committed a few milliseconds later, and for charges that
   * no caller waits for.
   */
  #priority({ intent }: OpenReservation): CommitPriority {
    if (this.#isAsync) return "deferred";
    if (this.book.holders === 0) return "immediate";
    return intent === 0 ? "batched" : "deferred";
  }

  get writable(): boolean {
    return this.#journal.writable;
  }

  purchasedLeft(workspace: Workspace): number {
    const known = this.book.findWorkspace(workspace.id);
    return known === undefined ? workspace.purchasedTotalCuMilli : known.purchasedLeft(workspace);
  }

  keyUsage(keyId: string): { day: number; month: number; open: number } {
    const now = this.#now();
    const key = this.book.findKey(keyId);
    return { day: key?.day.sum(now) ?? 0, month: key?.month.sum(now) ?? 0, open: key?.open ?? 0 };
  }

  keyWindows(key: Pick<ApiKey, "id" | "cuLimit24hMilli" | "cuLimit30dMilli">): KeyWindows {
    const now = this.#now();
    const known = this.book.findKey(key.id);
    const open = known?.open ?? 0;
    return {
      day: windowState(known?.day, key.cuLimit24hMilli, open, now),
      month: windowState(known?.month, key.cuLimit30dMilli, open, now),
      open,
    };
  }

  clearsAt(key: ApiKey, scope: string, refusedAt: number): number | undefined {
    if (scope === "plan") return periodOf(refusedAt).end;
    if (scope !== "24h" && scope !== "30d") return undefined;
    const { day, month } = this.keyWindows(key);
    const window = scope === "24h" ? day : month;
    // A full window clears when it has room for the smallest charge, any other when its oldest charges leave.
    return window.roomAt ?? window.freesAt;
  }

  workspaceUsage(workspaceId: string): Split & { periodStart: number; open: number } {
    const now = this.#now();
    const { included, purchased, overage, open } = this.#workspace(workspaceId, now);
    return { periodStart: this.#periodStart(now), included, purchased, overage, open };
  }

  flush(): Promise<void> {
    return this.#journal.flush();
  }

  async close(): Promise<void> {
    this.#sweeper[Symbol.dispose]();
    this.#sampler[Symbol.dispose]();
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

function windowState(
  window: RollingWindow | undefined,
  limit: number | undefined,
  open: number,
  now: number,
): WindowState {
  const used = window?.sum(now) ?? 0;
  // At most the limit minus one milli-CU leaves room for a charge. A limit of 0 never has room.
  const room = limit === undefined || limit === 0 ? Infinity : limit - 1 - open;
  return {
    used,
    limit,
    freesAt: window?.clearsAt(now, used - 1),
    roomAt: window?.clearsAt(now, Math.max(room, 0)),
    emptyAt: window?.clearsAt(now, 0),
  };
}

/**
 * Returns the reason why `costMilliCu` does not fit, or undefined if it fits. If several scopes refuse, the one that
 * takes longest to clear is reported: plan, then 30d, then 24h.
 */
function refusalOf(
  principal: KeyPrincipal,
  key: KeyCredit,
  workspace: WorkspaceCredit,
  costMilliCu: number,
  now: number,
): CuRefusal | undefined {
  const { plan } = principal;
  if (!workspace.fits(costMilliCu, plan, principal.workspace)) {
    return refusal(undefined, workspace.used, workspace.limit(plan, principal.workspace));
  }
  const month = key.month.sum(now) + key.open;
  const monthLimit = principal.key.cuLimit30dMilli ?? Number.MAX_SAFE_INTEGER;
  if (month + costMilliCu > monthLimit) return refusal("30d", month, monthLimit);
  const day = key.day.sum(now) + key.open;
  const dayLimit = principal.key.cuLimit24hMilli ?? Number.MAX_SAFE_INTEGER;
  if (day + costMilliCu > dayLimit) return refusal("24h", day, dayLimit);
  return undefined;
}

function refusal(window: CuRefusal["window"], usedMilliCu: number, limit: number): CuRefusal {
  const limitCuMilli = Math.min(limit, Number.MAX_SAFE_INTEGER);
  return { kind: "refused", window, usedCuMilli: usedMilliCu, limitCuMilli };
}

/**
 * Returns how much more can be reserved while all sums stay safe integers, even if the journal holds larger sums of
 * earlier days.
 */
function maxExactMilliCu(key: KeyCredit, workspace: WorkspaceCredit, now: number): number {
  const used = Math.max(key.month.sum(now) + key.open, workspace.used);
  return Math.max(0, Number.MAX_SAFE_INTEGER - used);
}

/**
 * Returns the lines with their sum cut to `maxMilliCu`, from the last line backwards. `onCut` is called with the
 * surface and the milli-CU of each line that is cut.
 */
function cutLines(
  lines: readonly ChargeLine[],
  maxMilliCu: number,
  onCut: (surface: string, milliCu: number) => void,
): readonly ChargeLine[] {
  let left = maxMilliCu;
  let isCut = false;
  const charged = lines.map((line) => {
    const costMilliCu = Math.min(line.costMilli, left);
    left -= costMilliCu;
    if (costMilliCu === line.costMilli) return line;
    isCut = true;
    onCut(line.surface, line.costMilli - costMilliCu);
    return { ...line, costMilli: costMilliCu };
  });
  return isCut ? charged : lines;
}

/** Sums are exact only if every amount is a safe integer. */
function isAmount(milliCu: number): boolean {
  return Number.isSafeInteger(milliCu) && milliCu >= 0;
}

/** Names are written to the journal, which accepts only text. */
function isChargeable({
  costMilli: costMilliCu,
  method,
  model = "",
  outcome = "",
}: ChargeLine): boolean {
  return (
    isAmount(costMilliCu) && [method, model, outcome].every((name) => typeof name === "string")
  );
}

function notChargeable({ costMilli: costMilliCu }: ChargeLine): RangeError {
  return isAmount(costMilliCu)
    ? new RangeError("a charge's method, model and outcome must be text")
    : notAnAmount(costMilliCu);
}

function notAnAmount(milliCu: number): RangeError {
  return new RangeError(`${milliCu} is not an amount in milli-CU`);
}
