/**
 * The meter: reserves credit over all scopes at once, settles it into charges, answers for every milli-CU.
 *
 * It runs on the main thread alone, so that checking and taking are one step and two parallel calls can never both take
 * the last unit. Durable are the charges: a settled one is in the journal before its promise resolves. A reservation is
 * only memory: a crash ends it, and nothing is owed for an answer that nobody has whole. Where bytes leave before it
 * settles (`streamed`), its intent goes to the journal too, so that the next start can tell what the crash broke off.
 * No byte waits for that: an intent that a crash lost and one that expires come to the same bill.
 */
import type { ApiKey, KeyPrincipal, Workspace } from "../../../src/services/accounts.ts";
import type { Clock } from "../../../src/services/clock.ts";
import type { ChargeLine, CuRefusal, Meter, Reservation } from "../../../src/services/meter.ts";
import type { CreditBook, KeyCredit, WorkspaceCredit } from "./credit.ts";
import type { Haste, Journal } from "./journal.ts";
import type { KeyWindows, WindowState } from "./meter.ts";
import type { MeterMetrics } from "./metrics.ts";
import { periodOf, type Split } from "./periods.ts";
import { chargeText, withPricing } from "./charge-text.ts";
import { closedBy } from "./records.ts";
import { OpenReservation } from "./reservation.ts";
import type { RollingWindow } from "./windows.ts";

interface MeterParts {
  readonly journal: Journal;
  readonly book: CreditBook;
  readonly metrics: MeterMetrics;
  readonly clock: Clock;
  readonly durability: "settled" | "async";
  /** Milliseconds since 1970 of the journal's newest record. */
  readonly newest: number;
}

const unavailable = { kind: "unavailable" } as const;
const onDiskAtOnce = Promise.resolve();

export class CreditMeter implements Meter {
  readonly #journal: Journal;
  readonly book: CreditBook;
  readonly #metrics: MeterMetrics;
  readonly #clock: Clock;
  readonly #isAsync: boolean;
  readonly #sweeper: Disposable;
  readonly #sampler: Disposable;
  /** The latest time seen: for metering, time never goes back. */
  #newest: number;
  #period = { start: 0, end: 0 };
  #nextIntent = 1;
  readonly #split: Split = { included: 0, purchased: 0, overage: 0 };

  constructor(parts: MeterParts) {
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
    costMilli: number,
    about: Parameters<Meter["reserve"]>[2],
  ): Reservation | CuRefusal | typeof unavailable {
    if (!isAmount(costMilli)) throw notAnAmount(costMilli);
    if (!this.#journal.writable) return unavailable;
    const now = this.#now();
    const key = this.book.key(principal.key.id);
    const workspace = this.#workspace(principal.workspace.id, now);
    if (costMilli > 0 && about.force !== true) {
      const refused = refuses(principal, key, workspace, costMilli, now);
      if (refused !== undefined) return refused;
    }
    // A forced reservation may exceed every limit, but sums must stay exact: what it holds is all that it can charge.
    const heldMilli =
      about.force === true ? Math.min(costMilli, exactRoom(key, workspace, now)) : costMilli;
    const intent = about.streamed === true ? this.#nextIntent++ : 0;
    if (intent !== 0)
      this.#writeIntent(key, workspace, about, { now, intent, costMilli: heldMilli });
    const text = chargeText(about.requestId, about.agent);
    return new OpenReservation(this, principal, key, workspace, heldMilli, text, intent);
  }

  #writeIntent(
    key: KeyCredit,
    workspace: WorkspaceCredit,
    about: { readonly requestId: string; readonly surface: string },
    what: { readonly now: number; readonly intent: number; readonly costMilli: number },
  ): void {
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
    void journal.publish(1, "later");
  }

  /**
   * For OpenReservation alone. Callers run behind sockets and timers, where nobody catches: a wrong amount rejects, and
   * the reservation ends without a charge.
   */
  settle(
    reservation: OpenReservation,
    given: readonly ChargeLine[],
    roomMilli: number,
  ): Promise<void> {
    const now = this.#now();
    const wrong = given.find((line) => !isChargeable(line));
    if (wrong !== undefined || given.length === 0) {
      this.#end(reservation, closedBy.settled, now);
      return wrong === undefined ? onDiskAtOnce : Promise.reject(notChargeable(wrong));
    }
    const lines = cutTo(given, roomMilli, (surface, milli) =>
      this.#metrics.cut(surface).add(milli),
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
    const written = this.#journal.publish(lines.length, this.#haste(reservation));
    return this.#isAsync ? onDiskAtOnce : written;
  }

  #charge(reservation: OpenReservation, line: ChargeLine, now: number): void {
    const { principal, key, workspace, intent, text } = reservation;
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
      text: withPricing(text, line.pricing),
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
    void this.#journal.publish(1, "later");
  }

  /** The end of a stream, which took its time anyway, may come a moment later; so may what nobody waits for. */
  #haste({ intent }: OpenReservation): Haste {
    if (this.#isAsync) return "later";
    if (this.book.holders === 0) return "now";
    return intent === 0 ? "soon" : "later";
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
  // What fits is at most the limit less one milli-CU; a limit of 0 never has room.
  const room = limit === undefined || limit === 0 ? Infinity : limit - 1 - open;
  return {
    used,
    limit,
    freesAt: window?.clearsAt(now, used - 1),
    roomAt: window?.clearsAt(now, Math.max(room, 0)),
    emptyAt: window?.clearsAt(now, 0),
  };
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

/** How much more can be reserved so that all sums stay safe integers, whatever the journal of earlier days holds. */
function exactRoom(key: KeyCredit, workspace: WorkspaceCredit, now: number): number {
  const used = Math.max(key.month.sum(now) + key.open, workspace.used);
  return Math.max(0, Number.MAX_SAFE_INTEGER - used);
}

/**
 * The lines, of which together no more than `roomMilli` is charged: what lies above is cut, from the last line
 * backwards. `onCut` is called with the surface and the milli-CU of each line that was cut.
 */
function cutTo(
  lines: readonly ChargeLine[],
  roomMilli: number,
  onCut: (surface: string, milli: number) => void,
): readonly ChargeLine[] {
  let left = roomMilli;
  let isCut = false;
  const charged = lines.map((line) => {
    const costMilli = Math.min(line.costMilli, left);
    left -= costMilli;
    if (costMilli === line.costMilli) return line;
    isCut = true;
    onCut(line.surface, line.costMilli - costMilli);
    return { ...line, costMilli };
  });
  return isCut ? charged : lines;
}

/** Sums stay exact only as long as every amount is a safe integer. */
function isAmount(milli: number): boolean {
  return Number.isSafeInteger(milli) && milli >= 0;
}

/** Names are written to the journal, which takes nothing but text. */
function isChargeable({ costMilli, method, model = "", outcome = "" }: ChargeLine): boolean {
  return isAmount(costMilli) && [method, model, outcome].every((name) => typeof name === "string");
}

function notChargeable({ costMilli }: ChargeLine): RangeError {
  return isAmount(costMilli)
    ? new RangeError("a charge's method, model and outcome must be text")
    : notAnAmount(costMilli);
}

function notAnAmount(milli: number): RangeError {
  return new RangeError(`${milli} is not an amount in milli-CU`);
}
