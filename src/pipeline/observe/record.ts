/** The record of one exchange: everything that logs, statistics and `sluice explain` may learn about it. */
import type { CallReport } from "../../contract/called.ts";
import type { LimitReached, NotedFacts, Outcome } from "../../plugin.ts";
import { CallRecord } from "./call-record.ts";

export interface RouteNames {
  readonly path: string;
  readonly surface: string;
  /** Names of the steps, from the top of the list. */
  readonly steps: readonly string[];
}

export type ExchangeObserver = (record: ExchangeRecord) => void;

/** `repliedDepth` if the core replied. The surface and all steps are above it. */
export const coreDepth = Infinity;

/**
 * Filled while the exchange runs and complete when its observers get it. Values of the latest records are kept for
 * `sluice explain`, so a record holds nothing that keeps a generation, a connection or a body alive. The depth of a step
 * is its position in the list, 0 at the top.
 */
export class ExchangeRecord {
  /** Milliseconds since 1970. */
  arrivedAt: number;
  method: string;
  route: RouteNames;
  readonly facts: NotedFacts = { requestId: undefined, caller: undefined, store: undefined };

  /** Status that was sent. 0 if no head was sent. */
  status = 0;
  bodyBytes = 0;
  code: string | undefined = undefined;
  /** The reason of the refusal, or the scope of the limit that was reached. Undefined without a code. */
  reason: string | undefined = undefined;
  outcome: Outcome | undefined = undefined;
  /** Duration in milliseconds. 0 while the exchange runs. */
  ms = 0;
  calls: CallRecord | undefined = undefined;
  /** The last limit that refused the request or one of its calls. */
  reached: LimitReached | undefined = undefined;

  /** Number of steps, from the top, that were entered. They take part in the way up. */
  enteredSteps = 0;
  /** Depth of the step whose reply was sent, or `coreDepth`. Undefined if the surface answered. */
  repliedDepth: number | undefined = undefined;
  failedDepth: number | undefined = undefined;
  isSurfaceEntered = false;
  /** Depths of the steps whose `when` did not match. Undefined if there were none. */
  skipped: ReadonlySet<number> | undefined = undefined;
  /** Depths of the steps that have failed and without which the exchange continues. Undefined if there are none. */
  dropped: Set<number> | undefined = undefined;
  /** Depths of the steps with `onError: skip` that have replaced a chunk. Undefined if there are none. */
  changedBody: Set<number> | undefined = undefined;
  /** Depths of the steps that would have refused if they were not in shadow mode. Undefined if there were none. */
  shadowRefusals: Set<number> | undefined = undefined;
  /** Milliseconds that the hooks at each depth took, below 0 if none ran. Undefined if the exchange is not timed. */
  times: Float64Array | undefined;

  constructor(
    arrivedAt: number,
    method: string,
    route: RouteNames,
    times: Float64Array | undefined,
  ) {
    this.arrivedAt = arrivedAt;
    this.method = method;
    this.route = route;
    this.times = times;
  }

  takesPart(depth: number, isFailedIncluded: boolean): boolean {
    if (depth >= this.enteredSteps) return false;
    if (!isFailedIncluded && this.hasFailed(depth)) return false;
    return this.skipped === undefined || !this.skipped.has(depth);
  }

  /** Returns true if the step at this depth has failed, whether the exchange continues or not. */
  hasFailed(depth: number): boolean {
    return depth === this.failedDepth || (this.dropped !== undefined && this.dropped.has(depth));
  }

  copy(other: ExchangeRecord): void {
    this.arrivedAt = other.arrivedAt;
    this.method = other.method;
    this.route = other.route;
    this.status = other.status;
    this.bodyBytes = other.bodyBytes;
    this.code = other.code;
    this.reason = other.reason;
    this.outcome = other.outcome;
    this.ms = other.ms;
    this.reached = other.reached;
    this.enteredSteps = other.enteredSteps;
    this.repliedDepth = other.repliedDepth;
    this.failedDepth = other.failedDepth;
    this.isSurfaceEntered = other.isSurfaceEntered;
    this.skipped = other.skipped;
    this.dropped = other.dropped;
    this.changedBody = other.changedBody;
    this.shadowRefusals = other.shadowRefusals;
    this.times = other.times;
  }

  addCall(report: CallReport): void {
    this.calls ??= new CallRecord();
    this.calls.add(report);
  }

  addShadowRefusal(depth: number): void {
    this.shadowRefusals ??= new Set();
    this.shadowRefusals.add(depth);
  }
}
