/** Connects a LedgerReplica with its ledger. Everything here runs in one thread, so reserving credit is one step. */
import type { Clock, Log } from "sluice-gateway/plugin";
import { guarded } from "sluice-gateway/internal/toolkit";
import type {
  ChargeDetails,
  CreditLedger,
  PostReply,
  PostRequest,
  ReplicaStatus,
} from "./ledger.ts";
import type { Account, LeasedReservation } from "./leased-reservation.ts";
import type { LeaseMetrics } from "../metering/metrics.ts";
import { notRecorded, type CreditLink } from "./leased-meter.ts";
import type { LedgerReplica } from "./replica.ts";
import type { Message, Reply } from "./replica-messages.ts";

export interface LedgerLinkDeps {
  readonly ledger: CreditLedger;
  readonly replica: LedgerReplica;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: LeaseMetrics;
  readonly place: string;
  readonly sweepDatabase?: () => void;
}

/** The replica is asked for messages at least this often. */
const tickMs = 50;
/** While charges wait because the last batch has just been sent, the replica is asked again after this time. */
const batchMs = 5;
/** Maximum difference between the clocks of this host and the ledger. A larger one is logged. */
const maxOffsetMs = 1_000;
/** A late reply looks like a clock that differs, so several replies in a row must show it. */
const offsetReplies = 4;
/**
 * Time that a stop waits for the last charges. Charges that are not posted by then belong to requests that were not
 * answered.
 */
const leaveMs = 3_000;

/** Interval at which the open reservations and the slack are measured. The slack requires a look at every lease. */
const sampleMs = 1_000;
const sweepMs = 10_000;

export class LedgerLink implements CreditLink {
  readonly leasesEveryKey = false;
  readonly #deps: LedgerLinkDeps;
  readonly #replica: LedgerReplica;
  readonly #clock: Clock;
  readonly #wakeUp: () => void;
  readonly #timers: readonly Disposable[];
  #ticker: Disposable | undefined;
  #batchTimer: Disposable | undefined;
  #isWoken = false;
  #failures = 0;
  /** Number of feeds in a row that have shown the opposite of `#isClockOff`. */
  #clockReplies = 0;
  #isClockOff = false;
  #onGone: (() => void) | undefined;

  constructor(deps: LedgerLinkDeps) {
    this.#deps = deps;
    this.#replica = deps.replica;
    this.#clock = deps.clock;
    this.#wakeUp = guarded(
      () => this.#exchangeMessages(),
      (error) => deps.log.error({ err: error }, "the exchange with the credit ledger failed"),
    );
    this.#timers = [
      deps.clock.every(sampleMs, () => this.#sample()),
      deps.clock.every(sweepMs, () => deps.sweepDatabase?.()),
    ];
  }

  /** Registers, and starts to exchange messages. Rejects with the failure of the ledger. */
  async start(): Promise<void> {
    // The first turn registers, and the second one is the first feed.
    for (let turn = 0; turn < 2; turn++) {
      for (const message of this.#replica.messages(this.#now())) {
        this.#receive(message, await this.#ask(message));
      }
    }
    this.#ticker = this.#clock.every(tickMs, this.#wakeUp);
  }

  get isAvailable(): boolean {
    return this.#replica.isAvailable(this.#now());
  }

  reserve(account: Account, costMilliCu: number, isForced = false): LeasedReservation {
    const reservation = this.#replica.reserve(this.#now(), account, costMilliCu, isForced);
    if (reservation.state === "waiting") this.#deps.metrics.waits.add(1);
    this.wake();
    return reservation;
  }

  settle(
    reservation: LeasedReservation,
    lines: readonly ChargeDetails[],
    more: readonly LeasedReservation[],
  ): Promise<void> {
    // The replica was fenced, and the credit could not be reserved again.
    if (reservation.state === "lost") {
      for (const other of more) this.release(other);
      return Promise.reject(notRecorded());
    }
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    promise.catch(() => {});
    reservation.onChange = () => {
      if (reservation.state === "lost") reject(notRecorded());
      if (reservation.state !== "posted") return;
      reservation.onChange = undefined;
      for (const { line } of lines) {
        this.#deps.metrics.charged(line.surface).add(line.costMilliCu);
      }
      resolve();
    };
    this.#replica.settle(this.#now(), reservation, lines, more);
    this.wake();
    return promise;
  }

  release(reservation: LeasedReservation): void {
    this.#replica.release(reservation);
    this.wake();
  }

  async close(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#onGone = resolve;
    this.#replica.drain();
    using _limit = this.#clock.after(leaveMs, resolve);
    this.wake();
    await promise;
    for (const timer of this.#timers) timer[Symbol.dispose]();
    this.#ticker?.[Symbol.dispose]();
    this.#batchTimer?.[Symbol.dispose]();
  }

  #now(): number {
    return this.#clock.monotonic();
  }

  /** Asks for epochs at once, because another replica waits for the answer. */
  feedSoon(): void {
    this.#replica.feedSoon(this.#now());
    this.wake();
  }

  /** Exchanges messages at the end of this turn of the event loop, so that all events of the turn share a message. */
  wake(): void {
    if (this.#isWoken) return;
    this.#isWoken = true;
    setImmediate(this.#wakeUp);
  }

  #exchangeMessages(): void {
    this.#isWoken = false;
    for (const message of this.#replica.messages(this.#now())) void this.#exchange(message);
    if (this.#replica.queuedCharges > 0 && this.#batchTimer === undefined) {
      this.#batchTimer = this.#clock.after(batchMs, () => {
        this.#batchTimer = undefined;
        this.#wakeUp();
      });
    }
    if (this.#replica.isGone) this.#onGone?.();
  }

  /** Never rejects. */
  async #exchange(message: Message): Promise<void> {
    try {
      this.#receive(message, await this.#ask(message));
    } catch (error) {
      this.#replica.failed(this.#now(), message);
      // The first failure is often a connection that the server has closed.
      if (++this.#failures === 3) {
        const { log, place } = this.#deps;
        const text = `${place} does not answer: no credit can be reserved; trying again`;
        log.warn({ err: error, message: message.kind }, text);
      }
    }
    this.wake();
  }

  #receive(message: Message, reply: Reply): void {
    const { metrics, log, place } = this.#deps;
    const { counters } = this.#replica;
    const before = { ...counters };
    this.#replica.receive(this.#now(), reply);
    metrics.recalls.add(counters.epochs - before.epochs);
    metrics.wentBack.add(counters.wentBack - before.wentBack);
    metrics.fenced.add(counters.fenced - before.fenced);
    if (counters.fenced > before.fenced) {
      log.warn(
        {},
        `${place} had no message from this gateway or thread, and gave its credit to others`,
      );
    }
    if (counters.wentBack > before.wentBack) {
      log.warn({}, `${place} has lost charges that it had committed: sending them again`);
    }
    if (this.#failures >= 3) log.info({}, `${place} answers again`);
    this.#failures = 0;
    if (message.kind === "feed") {
      const { time } = reply.reply as ReplicaStatus;
      this.#compareClocks(time - this.#clock.now());
    }
  }

  #compareClocks(offsetMs: number): void {
    const { metrics, log, place } = this.#deps;
    metrics.clockOffsetSeconds.set(offsetMs / 1000);
    const isOff = Math.abs(offsetMs) > maxOffsetMs;
    this.#clockReplies = isOff === this.#isClockOff ? 0 : this.#clockReplies + 1;
    if (this.#clockReplies < offsetReplies) return;
    this.#clockReplies = 0;
    this.#isClockOff = isOff;
    const fields = { offsetSeconds: offsetMs / 1000 };
    if (isOff) {
      log.warn(
        fields,
        `the clock of this host differs from that of ${place} by more than a second`,
      );
    } else log.info(fields, `the clock of this host agrees with that of ${place} again`);
  }

  async #ask(message: Message): Promise<Reply> {
    const { ledger } = this.#deps;
    const { no, kind } = message;
    switch (kind) {
      case "register":
        return { no, kind, reply: await ledger.register(message.name, message.mode) };
      case "feed":
        return { no, kind, reply: await ledger.feed(message.replica) };
      case "lease":
        return { no, kind, reply: await ledger.lease(message.request) };
      case "fence":
        return { no, kind, reply: await ledger.fence(message.replica) };
      case "leave":
        return { no, kind, reply: await ledger.leave(message.replica) };
      case "post":
        return { no, kind, reply: await this.#post(message.request) };
      default:
        throw message satisfies never;
    }
  }

  async #post(request: PostRequest): Promise<PostReply> {
    const { ledger, metrics } = this.#deps;
    const started = this.#now();
    const reply = await ledger.post(request);
    metrics.batchRows.observe(request.charges.length);
    metrics.postSeconds.observe((this.#now() - started) / 1000);
    return reply;
  }

  #sample(): void {
    const { metrics } = this.#deps;
    const { credit, queuedCharges } = this.#replica;
    metrics.openReservations.set(credit.reservations);
    metrics.queuedCharges.set(queuedCharges);
    let slackMilliCu = 0;
    let reservedMilliCu = 0;
    let scopes = 0;
    for (const lease of credit.scopes) {
      const slack = lease.slackMilliCu;
      slackMilliCu += slack;
      reservedMilliCu += lease.reserved;
      if (slack > 0 || lease.reserved > 0) scopes++;
    }
    metrics.slackMilliCu.set(slackMilliCu);
    metrics.reservedMilliCu.set(reservedMilliCu);
    metrics.scopes.set(scopes);
  }
}
