/** One node of a pool: its connections, what it said when last probed, and what is held against it. */
import type { Clock } from "../../../../src/services/clock.ts";
import { Breaker } from "./breaker.ts";
import type { NodeClient } from "./call.ts";
import type { Complaint } from "./complaint.ts";
import { failures, type Failure } from "./failure.ts";
import type { NodeMetrics } from "./node-metrics.ts";
import { probe, type Observation, type ProbeFailed } from "./probe.ts";

/** Probes in a row that may be too slow before the node counts as gone, unless it answers calls meanwhile. */
const slowProbes = 3;
/** Probes in a row that move on from a lower finalized block before that is the node's truth (a chain begun anew). */
const probesOfANewChain = 3;
/** It can be reached, and what it says is not usable. */
const badAnswers: ReadonlySet<Failure> = new Set([
  failures.garbage,
  failures.status,
  failures.tooLarge,
]);
const tooSlow: ReadonlySet<Failure> = new Set([
  failures.connectTimeout,
  failures.answerTimeout,
  failures.idleTimeout,
  failures.saturated,
]);

export interface NodeParts {
  readonly index: number;
  /** Host and port, without credentials. */
  readonly label: string;
  readonly client: NodeClient;
  /** For probes only: they must not wait behind calls. The same as `client` where that can carry any number at once. */
  readonly probeClient: NodeClient;
  readonly metrics: NodeMetrics;
  readonly clock: Clock;
}

export class PooledNode {
  readonly index: number;
  readonly label: string;
  readonly client: NodeClient;
  readonly metrics: NodeMetrics;
  readonly breaker: Breaker;
  /** Why it is left out; undefined: it is usable. Set by the roster. */
  complaint: Complaint | undefined = "unprobed";
  /** The complaint before this one. Set by the roster. */
  previousComplaint: Complaint | undefined;
  /** What it said last; kept while it is unreachable. */
  observed: Observation | undefined;
  /** Raised when it is no longer what it was: another genesis, software or runtime, or its chain begun anew. */
  changes = 0;
  /** A probe has ended, well or not. */
  probed = false;
  readonly #probeClient: NodeClient;
  readonly #clock: Clock;
  /** Set by the roster. */
  onProbed: () => void = () => {};
  #probing: Promise<void> | undefined;
  /** What the last probe found; undefined: it was answered well, or late for the first times. */
  #probeFault: "unreachable" | "bad_answer" | undefined;
  #probeDetail: string | undefined;
  #slowProbes = 0;
  /** Calls it has answered. */
  #answers = 0;
  #headMovedAt = 0;
  #finalizedHigh = -1;
  #finalizedLast = -1;
  #probesBackwards = 0;

  constructor(parts: NodeParts) {
    this.index = parts.index;
    this.label = parts.label;
    this.client = parts.client;
    this.metrics = parts.metrics;
    this.#probeClient = parts.probeClient;
    this.#clock = parts.clock;
    this.breaker = new Breaker(parts.clock, () => void this.probe());
  }

  /** What is wrong with it regardless of the other nodes. */
  get fault(): Complaint | undefined {
    if (this.#probeFault !== undefined) return this.#probeFault;
    if (this.observed === undefined) return "unprobed";
    if (this.breaker.open) return "tripped";
    return this.#probesBackwards > 0 ? "finalized_backwards" : undefined;
  }

  /** Milliseconds since its head was seen to move. */
  get headAgeMs(): number {
    return this.#clock.monotonic() - this.#headMovedAt;
  }

  /** System error code of the connection that failed last, for the log. */
  get lastError(): string | undefined {
    return this.#probeClient.lastError ?? this.client.lastError;
  }

  /** What was wrong with the last probe, for the log; undefined if it was answered well. */
  get probeDetail(): string | undefined {
    return this.#probeDetail;
  }

  /** It has answered a call; true when that ends an ejection. */
  succeeded(): boolean {
    this.#answers++;
    return this.breaker.succeeded();
  }

  /** Asks how it is, one probe at a time. */
  probe(): Promise<void> {
    this.#probing ??= this.#probe().finally(() => (this.#probing = undefined));
    return this.#probing;
  }

  async close(): Promise<void> {
    this.breaker.stop();
    this.onProbed = () => {};
    await Promise.all([this.client.close(), this.#probeClient.close()]);
    await this.#probing;
    // A probe that was under way may have started its time again.
    this.breaker.stop();
  }

  async #probe(): Promise<void> {
    const answersBefore = this.#answers;
    const result = await probe(this.#probeClient);
    if (result.kind === "observed") this.#observe(result.observed);
    else this.#missProbe(result, this.#answers > answersBefore);
    this.probed = true;
    this.breaker.probed(result.kind === "observed");
    this.onProbed();
  }

  /** A node that is merely slow keeps its place as long as it answers anything. */
  #missProbe({ failure, detail }: ProbeFailed, answering: boolean): void {
    this.#probeDetail = detail;
    if (!tooSlow.has(failure)) {
      this.#probeFault = badAnswers.has(failure) ? "bad_answer" : "unreachable";
      return;
    }
    this.#slowProbes = answering ? 0 : this.#slowProbes + 1;
    if (this.#slowProbes >= slowProbes) this.#probeFault = "unreachable";
  }

  #observe(seen: Observation): void {
    const last = this.observed;
    this.#probeFault = undefined;
    this.#probeDetail = undefined;
    this.#slowProbes = 0;
    // What it did not say this time has not changed.
    const observed = {
      ...seen,
      version: seen.version ?? last?.version,
      runtime: seen.runtime ?? last?.runtime,
    };
    this.observed = observed;
    if (last?.best !== seen.best) this.#headMovedAt = this.#clock.monotonic();
    if (last !== undefined && isAnother(last, observed)) this.changes++;
    if (last !== undefined && last.genesis !== seen.genesis) this.#finalizedHigh = -1;
    if (seen.finalized !== undefined) this.#watchFinalized(seen.finalized);
  }

  #watchFinalized(finalized: number): void {
    const steady = finalized >= this.#finalizedLast;
    this.#finalizedLast = finalized;
    if (finalized >= this.#finalizedHigh) {
      this.#finalizedHigh = finalized;
      this.#probesBackwards = 0;
      return;
    }
    this.#probesBackwards = steady ? this.#probesBackwards + 1 : 1;
    if (this.#probesBackwards <= probesOfANewChain) return;
    this.#finalizedHigh = finalized;
    this.#probesBackwards = 0;
    this.changes++;
  }
}

/** Not said before is no change. */
function isAnother(last: Observation, now: Observation): boolean {
  return (
    last.genesis !== now.genesis ||
    (last.version !== undefined && last.version !== now.version) ||
    (last.runtime !== undefined && last.runtime !== now.runtime)
  );
}
