/**
 * Writes the charges of one process, with its threads, to the journal. The charges of one turn of the event loop share
 * a commit, and so do all that are settled while a commit is in flight. The authority accepts charges when they are on
 * disk.
 */
import { availableParallelism } from "node:os";
import type { Clock, Log } from "sluice-gateway/plugin";
import type { ReservedFor } from "sluice-gateway/services";
import { guarded } from "sluice-gateway/internal/toolkit";
import type { LeasedCredit } from "../leases/leased-credit.ts";
import type { LeasedReservation } from "../leases/leased-reservation.ts";
import type {
  LeasedCharge,
  PostRequest,
  ReplicaStatus,
  WorkspaceLimits,
} from "../leases/ledger.ts";
import type { MemoryLedger } from "../leases/memory-ledger.ts";
import { notRecorded } from "../leases/leased-meter.ts";
import type { Journal } from "./journal.ts";
import type { MeterTime } from "./meter-time.ts";
import type { MeterMetrics } from "./metrics.ts";
import { MonthDraws } from "./month-draws.ts";
import { periodOf } from "../leases/months.ts";
import { OpenStreams, type RecordEncoder, type StreamEvent } from "./record-encoder.ts";
import { closeReason } from "./records.ts";

export interface Recorded {
  readonly journal: Journal;
  readonly encoder: RecordEncoder;
  readonly draws: Map<string, MonthDraws>;
}

export interface ChargeBatchesDeps {
  readonly recorded: Recorded;
  readonly ledger: MemoryLedger;
  readonly replica: number;
  readonly credit: LeasedCredit;
  readonly time: MeterTime;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: MeterMetrics;
  /** True if charges that could not be written are kept for another attempt, because their callers do not wait. */
  readonly isAsync: boolean;
}

/**
 * | state     | meaning                                                                     | next                  |
 * | --------- | --------------------------------------------------------------------------- | --------------------- |
 * | `idle`    | no commit is in flight                                                      | `writing`, `ending`   |
 * | `writing` | the journal writes `#commit`                                                | `idle`, `kept`        |
 * | `kept`    | `#commit` has failed, and is written again when the journal has recovered   | `writing`, `ending`   |
 * | `ending`  | everything that waits is written in a last attempt                          | `closed`              |
 * | `closed`  | the journal is closed. Charges are lost; the ends of streams wait           | `idle` (`use`)        |
 */
type State = "idle" | "writing" | "kept" | "ending" | "closed";

/** Charges of a thread that serves (`server.threads`). */
interface ThreadPost {
  readonly request: PostRequest;
  readonly resolve: (status: ReplicaStatus) => void;
  readonly reject: (error: Error) => void;
}

interface Batch {
  readonly settled: LeasedReservation[];
  readonly posts: ThreadPost[];
  rows: number;
  /** Monotonic time of the first one in milliseconds. */
  readonly since: number;
  readonly recorded: PromiseWithResolvers<void>;
}

/** A batch in the form in which the journal writes it. */
interface Commit {
  readonly batch: Batch;
  readonly charges: readonly LeasedCharge[];
  readonly events: readonly StreamEvent[];
  readonly draws: ReadonlySet<MonthDraws>;
  readonly bytes: number;
  readonly rows: number;
}

/**
 * On one core, a commit takes its time from the event loop, however many charges it has. Charges then wait for others:
 * while reservations are open, and for a moment after a commit of many charges, whose callers are likely to call again.
 */
const isOneCore = availableParallelism() === 1;
const deferOnOneCoreMs = 2;
/** Time for which the ends of streams wait for others: nobody notices it at the end of a long answer. */
const deferMs = 4;
/** After a commit with more charges, the next ones wait for `deferNextMs`, so that they share a commit. */
const smallBatch = 3;
const deferNextMs = 1;
/** They wait no longer when they are as many as this share of the last commit. */
const fullShare = 0.75;
const resolved = Promise.resolve();

export class ChargeBatches {
  readonly #deps: ChargeBatchesDeps;
  #recorded: Recorded;
  #state: State = "idle";
  /**
   * Time within which the records that wait are written in milliseconds; 0: at the end of this turn of the event loop.
   * If a commit is in flight then, they are written after it. Infinity if none waits.
   */
  #dueMs = Infinity;
  /** Timers by their time. They are started again, because a new one per batch would cost as much as a charge. */
  readonly #timers = new Map<number, NodeJS.Timeout>();
  #next: Batch | undefined;
  /** Defined in the states `writing` and `kept`, and sometimes in `ending`. */
  #commit: Commit | undefined;
  #written = resolved;
  #lastRows = 0;
  /** Number of those that came from threads. */
  #lastPosted = 0;
  /** Number of the last charge that the authority has accepted. */
  #posted = 0;
  #monthEnd = 0;
  readonly #streams = new OpenStreams();
  readonly #flush: () => void;

  constructor(deps: ChargeBatchesDeps) {
    this.#deps = deps;
    this.#recorded = deps.recorded;
    this.#flush = guarded(
      () => this.#write(),
      (error) => this.#failToEncode(error),
    );
    this.use(deps.recorded);
  }

  /** Continues with a journal that has just been opened. */
  use(recorded: Recorded): void {
    this.#recorded = recorded;
    this.#state = "idle";
    this.#monthEnd = 0;
    this.startMonth(this.#deps.time.now());
    recorded.journal.onChange = () => {
      if (this.#state === "kept" && this.#commit !== undefined) this.#start(this.#commit);
      else this.#flush();
    };
    this.#flush();
  }

  get isAvailable(): boolean {
    const isOpen = this.#state === "idle" || this.#state === "writing" || this.#state === "kept";
    return isOpen && this.#recorded.journal.writable;
  }

  get waitingRows(): number {
    return (this.#commit?.rows ?? 0) + (this.#next?.rows ?? 0) + this.#streams.waiting;
  }

  /** Monotonic time since which the oldest charge has been waiting. Undefined if none is waiting. */
  get waitingSince(): number | undefined {
    return (this.#commit?.batch ?? this.#next)?.since;
  }

  beginStream(reservation: LeasedReservation, about: ReservedFor): void {
    this.#streams.begin(reservation, this.#deps.time.now(), about);
    this.#schedule(deferMs);
  }

  endStream(reservation: LeasedReservation, why: number): void {
    if (this.#streams.end(reservation, this.#deps.time.now(), why)) this.#schedule(deferMs);
  }

  add(settled: LeasedReservation): void {
    this.#next ??= newBatch(this.#deps.clock.monotonic());
    this.#next.settled.push(settled);
    this.#next.rows += settled.charges.length;
  }

  /**
   * Writes the charges of a thread, with the present time, because times in the journal ascend. Resolves when they are
   * on disk. Rejects if they never will be.
   */
  post(given: PostRequest): Promise<ReplicaStatus> {
    const { promise, resolve, reject } = Promise.withResolvers<ReplicaStatus>();
    const time = this.#deps.time.now();
    const request = { ...given, charges: given.charges.map((charge) => ({ ...charge, time })) };
    this.#next ??= newBatch(this.#deps.clock.monotonic());
    this.#next.posts.push({ request, resolve, reject });
    this.#next.rows += request.charges.length;
    void this.#commitNext(this.#lastPosted > smallBatch ? deferNextMs : 0);
    return promise;
  }

  /** `mayWait`: true if others may join them for a few milliseconds. Resolves when they are on disk, else rejects. */
  commit(mayWait: boolean): Promise<void> {
    const { credit, isAsync } = this.#deps;
    if (isAsync) return this.#commitNext(deferMs);
    if (credit.reservations === 0) {
      const expectsMore =
        this.#lastRows > smallBatch && (this.#next?.rows ?? 0) < fullShare * this.#lastRows;
      return this.#commitNext(isOneCore && expectsMore ? deferNextMs : 0);
    }
    if (mayWait) return this.#commitNext(deferMs);
    return this.#commitNext(isOneCore ? deferOnOneCoreMs : 0);
  }

  /** `ms`: time for which the charges may wait for others. */
  #commitNext(ms: number): Promise<void> {
    const { failure } = this.#recorded.journal;
    const recorded = this.#recordedAll;
    if (this.#state === "closed") this.#lose(notRecorded());
    else if (failure !== undefined && !this.#deps.isAsync) this.#lose(failure);
    else this.#schedule(ms);
    return recorded;
  }

  #schedule(ms: number): void {
    if (this.#dueMs <= ms) return;
    this.#dueMs = ms;
    if (ms > 0) this.#startTimer(ms);
    else if (this.#state === "idle") setImmediate(this.#flush);
  }

  #startTimer(ms: number): void {
    const timer = this.#timers.get(ms);
    if (timer !== undefined) timer.refresh();
    else
      this.#timers.set(
        ms,
        setTimeout(() => this.#dueMs === ms && this.#flush(), ms),
      );
  }

  #write(): void {
    this.#dueMs = 0;
    if (this.#state !== "idle") return;
    const { failure, mayRecover } = this.#recorded.journal;
    if (failure === undefined) {
      const commit = this.#encode();
      if (commit !== undefined) this.#start(commit);
    } else if (!(this.#deps.isAsync && mayRecover) && this.#next !== undefined) this.#lose(failure);
  }

  #encode(): Commit | undefined {
    this.#dueMs = Infinity;
    const { encoder } = this.#recorded;
    encoder.clear();
    const events = this.#streams.encode(encoder);
    const batch = this.#next ?? newBatch(this.#deps.clock.monotonic());
    const charges: LeasedCharge[] = [];
    const draws = new Set<MonthDraws>();
    for (const { charges: settled, stream } of batch.settled) {
      for (const charge of settled) {
        draws.add(this.#encodeCharge(charge, stream));
        charges.push(charge);
      }
    }
    for (const { request } of batch.posts) {
      for (const charge of request.charges) draws.add(this.#encodeCharge(charge, 0));
    }
    if (encoder.rows === 0) return undefined;
    this.#next = undefined;
    return { batch, charges, events, draws, bytes: encoder.bytes, rows: encoder.rows };
  }

  #encodeCharge(charge: LeasedCharge, stream: number): MonthDraws {
    const { workspaceId } = charge;
    let draws = this.#recorded.draws.get(workspaceId);
    if (draws === undefined) this.#recorded.draws.set(workspaceId, (draws = new MonthDraws()));
    const limits = this.#deps.ledger.scopes.get(workspaceId)?.limits ?? draws.limits;
    draws.moveTo(this.#deps.time.periodStart(charge.time));
    this.#recorded.encoder.charge(charge, draws.add(charge.costMilliCu, limits), stream);
    return draws;
  }

  #failToEncode(error: unknown): void {
    this.#deps.log.error({ err: error }, "charges could not be encoded");
    this.#lose(error instanceof Error ? error : new Error(String(error)));
  }

  #start(commit: Commit): void {
    this.#state = "writing";
    this.#commit = commit;
    this.#written = this.#writeCommit(commit);
  }

  /** Never rejects. */
  async #writeCommit(commit: Commit): Promise<void> {
    const { journal } = this.#recorded;
    try {
      await journal.write(commit.bytes, commit.rows);
      this.#accept(commit);
    } catch (error) {
      const isKept = this.#state === "writing" && this.#deps.isAsync && journal.mayRecover;
      if (isKept) this.#state = "kept";
      else this.#lose(error instanceof Error ? error : notRecorded());
    }
  }

  #accept({ batch, charges, draws }: Commit): void {
    const { ledger, replica, credit, metrics, time } = this.#deps;
    const last = this.#posted + charges.length;
    ledger.post({ replica, first: this.#posted + 1, last, charges });
    this.#posted = last;
    for (const { costMilliCu, details } of charges) {
      metrics.charged(details.line.surface).add(costMilliCu);
    }
    for (const reservation of batch.settled) credit.posted(reservation);
    this.#lastRows = batch.rows;
    this.#lastPosted = 0;
    for (const { request, resolve } of batch.posts) {
      this.#lastPosted += request.charges.length;
      resolve(ledger.post(request));
    }
    for (const each of draws) each.save();
    this.#recorded.encoder.saved();
    this.#endCommit();
    this.startMonth(time.now());
    batch.recorded.resolve();
    if (this.#dueMs === 0) this.#flush();
  }

  #endCommit(): void {
    this.#commit = undefined;
    if (this.#state === "writing" || this.#state === "kept") this.#state = "idle";
  }

  /** Nothing that is not on disk is charged. The begins and ends of streams are written with the next commit. */
  #lose(error: Error): void {
    const { credit, isAsync, log, metrics } = this.#deps;
    const { journal, draws, encoder } = this.#recorded;
    const rows = (this.#commit?.rows ?? 0) + (this.#next?.rows ?? 0);
    if (rows > 0 && (isAsync || !journal.mayRecover)) {
      log.error({ rows }, "charges could not be written to the journal");
    }
    for (const each of draws.values()) each.takeBack();
    this.#streams.takeBack(this.#commit?.events ?? []);
    for (const batch of [this.#commit?.batch, this.#next]) {
      for (const reservation of batch?.settled ?? []) {
        credit.takeBack(reservation);
        this.endStream(reservation, closeReason.released);
        for (const { costMilliCu } of reservation.charges) metrics.lost.add(costMilliCu);
      }
      for (const { request, reject } of batch?.posts ?? []) {
        for (const { costMilliCu } of request.charges) metrics.lost.add(costMilliCu);
        reject(error);
      }
      batch?.recorded.reject(error);
    }
    this.#next = undefined;
    encoder.discard();
    this.#endCommit();
  }

  /** Ends the months of all workspaces, as soon as their charges are on disk. Their divisions never change again. */
  startMonth(time: number): void {
    if (time < this.#monthEnd || this.#commit !== undefined) return;
    const { start, end } = periodOf(time);
    const { settled = [], posts = [] } = this.#next ?? {};
    const oldest = settled[0]?.charges[0] ?? posts[0]?.request.charges[0];
    if (oldest !== undefined && oldest.time < start) return;
    this.#monthEnd = end;
    for (const [workspaceId, draws] of this.#recorded.draws) {
      draws.moveTo(start);
      draws.save();
      const scope = this.#deps.ledger.scope(workspaceId);
      Object.assign(scope, { fixed: [...draws.ended] });
    }
  }

  /** Returns limits that divide the sum of the month as it is on disk. */
  limitsOf(workspaceId: string): WorkspaceLimits {
    return (this.#recorded.draws.get(workspaceId) ?? new MonthDraws()).limits;
  }

  /** Rejects if some of the charges so far could not be written. */
  flush(): Promise<void> {
    this.#flush();
    return this.#recordedAll;
  }

  get #recordedAll(): Promise<void> {
    return (this.#next ?? this.#commit?.batch)?.recorded.promise ?? resolved;
  }

  /** Makes a last attempt if the journal has failed. Never rejects. */
  async end(): Promise<void> {
    const { journal } = this.#recorded;
    while (this.#state === "writing") await this.#written;
    this.#state = "ending";
    await journal.probed;
    try {
      do {
        this.#commit ??= this.#encode();
        if (this.#commit === undefined) break;
        await this.#writeCommit(this.#commit);
      } while (journal.failure === undefined);
    } catch (error) {
      this.#failToEncode(error);
    }
    this.#state = "closed";
    if (this.#next !== undefined) this.#lose(journal.failure ?? notRecorded());
    await journal.close();
  }
}

function newBatch(since: number): Batch {
  const recorded = Promise.withResolvers<void>();
  // Callers that wait get the rejection. Without a caller it must not be an unhandled rejection.
  recorded.promise.catch(() => {});
  return { settled: [], posts: [], rows: 0, since, recorded };
}
