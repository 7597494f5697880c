/**
 * Copies the charges of the journal to the database, exactly once and in the order of the journal. The journal is the
 * outbox, and the database keeps the position (`posted`): the copy continues there after any crash of either side. A
 * batch whose outcome is unknown is simply sent again, because the database refuses what it has already.
 */
import type { Clock, DatabaseFailure, Log } from "sluice-gateway/plugin";
import { LagGauge, TurnWait } from "../metering/outbox.ts";
import type { Batch } from "./batch.ts";
import type { ChargeStore, PostResult, RegisterResult, Registration } from "./charge-store.ts";
import type { ShippingMetrics } from "./metrics.ts";

export interface ShipperDeps {
  readonly store: Pick<ChargeStore, "post" | "leave"> & { register(): Promise<RegisterResult> };
  /** Returns the commits after `after`. Undefined if there are none. Rejects if they cannot be read now. */
  read(after: number): Promise<Batch | undefined>;
  /** The registration that the start of the gateway got. */
  readonly first: RegisterResult & { readonly kind: "registered" };
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: ShippingMetrics;
}

/** Time between two reads of a journal that has no new commits. The promise is that charges arrive within 250 ms. */
const everyMs = 100;
/** An idle replica reports at this interval that it is alive. It counts as ended after 10 seconds. */
const heartbeatMs = 2_000;
/** The wait after a failure doubles between these limits. */
const firstWaitMs = 100;
const maxWaitMs = 2_000;
/** Wait after a failure that only an operator can remove. */
const stoppedWaitMs = 10_000;
/** Time that the last batch may take when the gateway stops. What is not copied then is copied after the next start. */
const closeMs = 3_000;

const noRows = Buffer.from("[]");

export class Shipper {
  readonly #deps: ShipperDeps;
  readonly #turns: TurnWait;
  readonly #lag: LagGauge;
  readonly #running: Promise<void>;
  /** Undefined if this start must register again. */
  #registration: Registration | undefined;
  /** Number of the last commit that the database has. */
  #posted: number;
  /** The largest `posted` that the database has ever confirmed. */
  #confirmed: number;
  #heardAt: number;
  #failures = 0;
  #isReplaced = false;

  /** Starts the copy, which runs until `close`. */
  constructor(deps: ShipperDeps) {
    this.#deps = deps;
    this.#registration = deps.first.registration;
    this.#posted = deps.first.posted;
    this.#confirmed = deps.first.posted;
    this.#heardAt = deps.clock.monotonic();
    this.#turns = new TurnWait(deps.clock);
    this.#lag = new LagGauge(deps.clock, deps.metrics.lagSeconds);
    this.#running = this.#run();
  }

  /** Copies what the journal has, reports the end of this replica and stops, within a few seconds. */
  async close(): Promise<void> {
    this.#turns.close();
    const late = Promise.withResolvers<void>();
    using _timer = this.#deps.clock.after(closeMs, late.resolve);
    await Promise.race([this.#running, late.promise]);
    this.#lag[Symbol.dispose]();
  }

  async #run(): Promise<void> {
    while (!this.#turns.isClosed && !this.#isReplaced) {
      await this.#turns.wait(await this.#turn());
    }
    // The charges of the last requests.
    while (!this.#isReplaced && (await this.#turn()) === 0);
    const { store } = this.#deps;
    if (this.#registration !== undefined) {
      await store.leave(this.#registration).catch(() => {});
    }
  }

  /** Copies one batch. Returns the time until the next one in milliseconds. Never rejects. */
  async #turn(): Promise<number> {
    try {
      const registration = this.#registration ?? (await this.#register());
      if (registration === undefined) return stoppedWaitMs;
      const batch = await this.#deps.read(this.#posted);
      this.#lag.set(batch?.since);
      const idleMs = this.#deps.clock.monotonic() - this.#heardAt;
      if (batch === undefined && idleMs < heartbeatMs) return everyMs;
      const result = await this.#post(registration, batch);
      this.#recovered();
      return this.#finish(result, batch);
    } catch (error) {
      return this.#failed(error);
    }
  }

  /** Sends a batch. Without a batch it only reports that this replica is alive. */
  async #post(registration: Registration, batch: Batch | undefined): Promise<PostResult> {
    const { store, clock, metrics } = this.#deps;
    const none = { first: this.#posted + 1, last: this.#posted, check: undefined, rows: noRows };
    const started = clock.monotonic();
    const result = await store.post(registration, batch ?? none);
    if (batch !== undefined) {
      metrics.batchRows.observe(batch.count);
      metrics.postSeconds.observe((clock.monotonic() - started) / 1000);
    }
    return result;
  }

  #finish(result: PostResult, batch: Batch | undefined): number {
    const { clock, log, metrics } = this.#deps;
    if (result.kind === "posted") {
      this.#heardAt = clock.monotonic();
      this.#posted = result.posted;
      this.#confirmed = Math.max(this.#confirmed, result.posted);
      if (batch?.more === true) return 0;
      this.#lag.set(undefined);
      return everyMs;
    }
    if (result.kind === "moved") {
      // An earlier batch was committed although its answer was lost, or the database has lost commits.
      this.#continueAt(result.posted);
      return 0;
    }
    this.#registration = undefined;
    if (result.kind === "replaced") {
      this.#isReplaced = true;
      metrics.stopped.set(1);
      log.error(
        {},
        "another gateway has started on a copy of this data folder: charges are no longer copied to PostgreSQL",
      );
    }
    return 0;
  }

  async #register(): Promise<Registration | undefined> {
    const { store, log } = this.#deps;
    const result = await store.register();
    if (result.kind === "in_use") {
      const message = "another gateway uses the PostgreSQL database: charges are not copied to it";
      if (this.#stop()) log.error({ other: result.other }, message);
      return undefined;
    }
    this.#registration = result.registration;
    this.#continueAt(result.posted);
    return result.registration;
  }

  #continueAt(posted: number): void {
    const { log, metrics } = this.#deps;
    if (posted < this.#confirmed) {
      metrics.wentBack.add(1);
      const fields = { confirmed: this.#confirmed, posted };
      log.warn(fields, "PostgreSQL has lost charges that it had committed: sending them again");
    }
    this.#posted = posted;
    this.#confirmed = posted;
  }

  #failed(error: unknown): number {
    const { log } = this.#deps;
    if (isPermanent(error)) {
      if (this.#stop()) log.error({ err: error }, "PostgreSQL refuses the charges; trying again");
      return stoppedWaitMs;
    }
    const wait = Math.min(maxWaitMs, firstWaitMs * 2 ** this.#failures);
    // The first failure is often a connection that the server has closed, and the next attempt opens another one.
    if (++this.#failures === 2) {
      log.warn({ err: error }, "charges cannot be copied to PostgreSQL; trying again");
    }
    return wait;
  }

  /** Shows that the copy has stopped. Returns true if this is news. */
  #stop(): boolean {
    const isNews = this.#failures < stoppedFailures;
    this.#failures = stoppedFailures;
    this.#deps.metrics.stopped.set(1);
    return isNews;
  }

  #recovered(): void {
    if (this.#failures > 1) this.#deps.log.info({}, "charges are copied to PostgreSQL again");
    this.#failures = 0;
    this.#deps.metrics.stopped.set(0);
  }
}

/** Value of the counter of failures after one that only an operator can remove. */
const stoppedFailures = 1_000;

/**
 * Whether trying again soon cannot help. Lock time-outs, deadlocks, cancelled statements and lack of resources are
 * refusals that pass.
 */
function isPermanent(error: unknown): boolean {
  if (!isFailure(error) || !error.isRefused) return false;
  return !/^(40|53|55P03$|57014$)/.test(error.code ?? "");
}

function isFailure(error: unknown): error is DatabaseFailure {
  return error instanceof Error && "isRefused" in error;
}
