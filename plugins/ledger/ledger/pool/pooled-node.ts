import {
  Ejection,
  type Absence,
  type Backend,
  type EjectionPolicy,
} from "sluice-gateway/internal/http";
import type { Clock } from "sluice-gateway/plugin";
import type { NodesDeps } from "../node-pool.ts";
import { BatchingClient } from "./batching-client.ts";
import type { ExclusionReason } from "./exclusion-reason.ts";
import { HttpClient } from "./http-client.ts";
import { failures, type Failure, type NodeClient } from "./node-call.ts";
import { nodeMetrics, type NodeMetrics } from "./node-metrics.ts";
import { probe, type Observation, type ProbeFailed } from "./probe.ts";
import { WsClient } from "./ws-client.ts";

/** A node that answers no calls counts as unreachable after this number of consecutive slow probes. */
const slowProbes = 3;
/** Consecutive probes with a lower finalized block that does not go back further, until it is accepted (new chain). */
const maxProbesBackwards = 3;
/** Failures of a node that can be reached but gives unusable answers. */
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

const ejectionPolicy: EjectionPolicy = {
  failures: 5,
  failuresAfterReturn: 5,
  firstMs: 1_000,
  maxMs: 60_000,
  jitter: 0.25,
};

/** decisions.md section 18. */
const distrustPolicy: EjectionPolicy = {
  failures: 1,
  failuresAfterReturn: 1,
  firstMs: 600_000,
  maxMs: 86_400_000,
  jitter: 0,
};

export function openNodes(deps: NodesDeps): readonly PooledNode[] {
  const urls = deps.upstream.urls.map((url) => new URL(url));
  return urls.map((url, index) => {
    // Host and port, with the index in the configuration if two URLs share them.
    const isShared = urls.filter((other) => other.host === url.host).length > 1;
    return new PooledNode(deps, url, index, isShared ? `${url.host}#${index}` : url.host);
  });
}

export class PooledNode implements Backend {
  readonly index: number;
  /** Host and port, without credentials. */
  readonly label: string;
  /** Address for WebSockets. A Substrate node serves them and HTTP at one port. */
  readonly url: URL;
  readonly client: NodeClient;
  readonly metrics: NodeMetrics;
  readonly ejection: Ejection;
  /** Ejects the node after an answer that was proved to be wrong. Good answers do not end it. */
  readonly distrust: Ejection;
  /** Undefined if the node is usable. Set by `NodeHealth`. */
  exclusionReason: ExclusionReason | undefined = "unprobed";
  /** Milliseconds since 1970. Set by `NodeHealth`. */
  excludedAt: number;
  previousExclusionReason: ExclusionReason | undefined;
  /** The last observation. It is kept while the node is unreachable. */
  observed: Observation | undefined;
  /**
   * Number of blocks before the best one whose state the node has; Infinity for an archive node. Undefined if it is not
   * known. Set by `StateDepths`.
   */
  stateDepth: number | undefined;
  /** Incremented when the genesis, software or runtime of the node changes, or its chain starts again. */
  changes = 0;
  /**
   * True after the chain of the node has started again, until it is as high as before. Reset by `NodeHealth` when the
   * chain of the pool has started again.
   */
  hasRestarted = false;
  probed = false;
  /** Undefined if the last probe succeeded. */
  failedProbe: ProbeFailed | undefined;
  /** Used for calls of the pool itself, which must not wait for other calls. May be `client` if it has no queue. */
  readonly probeClient: NodeClient;
  readonly #clock: Clock;
  readonly #probeTimeoutMs: number;
  /** Called after each probe. Set by `NodeHealth`. */
  onProbed: () => void = () => {};
  #probing: Promise<void> | undefined;
  /** Undefined if the last probe succeeded, or was slow only a few times. */
  #probeFault: "unreachable" | "bad_answer" | undefined;
  #slowProbes = 0;
  #answers = 0;
  #headMovedAt = 0;
  #finalizedHigh = -1;
  #finalizedLast = -1;
  /** The highest finalized block before the chain of the node has started again. */
  #finalizedBefore = -1;
  #probesBackwards = 0;

  constructor(deps: NodesDeps, url: URL, index: number, label: string) {
    const { upstream, clock, log } = deps;
    const { connectMs, headersMs, idleMs, answerBytes } = upstream;
    const limits = { url, connectMs, headersMs, idleMs, answerBytes, clock, log };
    this.index = index;
    this.label = label;
    this.url = new URL(url.href.replace(/^http/, "ws"));
    this.metrics = nodeMetrics(deps.metrics, upstream.name, label);
    this.#clock = clock;
    this.#probeTimeoutMs = Math.min(upstream.probeTimeoutMs, headersMs);
    if (url.protocol.startsWith("ws")) {
      this.client = this.probeClient = new WsClient({ ...limits, connections: 1 });
    } else {
      // One connection is reserved for probes, so that a node that is busy with calls does not appear to be
      // unreachable.
      const connections = Math.max(1, upstream.connections - 1);
      this.client = new BatchingClient(new HttpClient({ ...limits, connections }), clock);
      // Its connection must be free again when a probe has timed out.
      const probing = { ...limits, headersMs: this.#probeTimeoutMs, connections: 1 };
      this.probeClient = new HttpClient(probing);
    }
    this.excludedAt = clock.now();
    const retry = (): void => void this.probe();
    this.ejection = new Ejection(ejectionPolicy, clock, retry);
    this.distrust = new Ejection(distrustPolicy, clock, retry);
  }

  get isEjected(): boolean {
    return this.exclusionReason !== undefined;
  }

  /** Number of the finalized block. Undefined if the node has reported more than it has imported, which is wrong. */
  get finalized(): number | undefined {
    const { finalized, best } = this.observed ?? { best: 0 };
    return finalized !== undefined && finalized <= best ? finalized : undefined;
  }

  get inFlight(): number {
    return this.client.inFlight;
  }

  get ownExclusionReason(): ExclusionReason | undefined {
    if (this.#probeFault !== undefined) return this.#probeFault;
    if (this.observed === undefined) return "unprobed";
    if (this.distrust.isEjected) return "wrong_proof";
    if (this.ejection.isEjected) return "tripped";
    return this.#probesBackwards > 0 ? "finalized_backwards" : undefined;
  }

  get head(): Observation | undefined {
    return this.isEjected ? undefined : this.observed;
  }

  /** Undefined if it is not known. */
  get oldestState(): number | undefined {
    const { stateDepth, observed } = this;
    if (stateDepth === undefined || observed === undefined) return undefined;
    return Math.max(0, observed.best - stateDepth);
  }

  get headAgeMs(): number {
    return this.#clock.monotonic() - this.#headMovedAt;
  }

  /** Finding of the last probe, or the failure that ejected the node. */
  get absenceDetail(): string | undefined {
    const reason = this.exclusionReason;
    if (reason === "tripped") return this.ejection.absence?.reason;
    const isProbed = reason === "unreachable" || reason === "bad_answer";
    return isProbed ? this.failedProbe?.detail : undefined;
  }

  get absence(): Absence | undefined {
    const reason = this.exclusionReason;
    if (reason === undefined) return undefined;
    return {
      ...(reason === "tripped" && this.ejection.absence),
      ...(reason === "wrong_proof" && this.distrust.absence),
      reason: this.absenceDetail ?? reason.replaceAll("_", " "),
      since: new Date(this.excludedAt).toISOString(),
    };
  }

  /** Returns true if the answer ends an ejection. */
  succeeded(): boolean {
    this.#answers++;
    return this.ejection.succeeded();
  }

  probe(): Promise<void> {
    this.#probing ??= this.#probe().finally(() => (this.#probing = undefined));
    return this.#probing;
  }

  async close(): Promise<void> {
    this.ejection.close();
    this.distrust.close();
    this.metrics.close();
    this.onProbed = () => {};
    await Promise.all([this.client.close(), this.probeClient.close()]);
    await this.#probing;
  }

  async #probe(): Promise<void> {
    const answersBefore = this.#answers;
    const result = await probe(this.probeClient, { clock: this.#clock, ms: this.#probeTimeoutMs });
    if (result.kind === "observed") this.#observe(result.observed);
    else this.#missProbe(result, this.#answers > answersBefore);
    this.probed = true;
    this.ejection.probed(result.kind === "observed");
    this.distrust.probed(result.kind === "observed");
    this.onProbed();
  }

  /** A node that is only slow remains usable as long as it answers calls. */
  #missProbe(failed: ProbeFailed, answering: boolean): void {
    const { failure } = failed;
    this.failedProbe = failed;
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
    this.failedProbe = undefined;
    this.#slowProbes = 0;
    // A value that is missing this time counts as unchanged.
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
    if (finalized >= this.#finalizedBefore) this.hasRestarted = false;
    if (finalized >= this.#finalizedHigh) {
      this.#finalizedHigh = finalized;
      this.#probesBackwards = 0;
      return;
    }
    this.#probesBackwards = steady ? this.#probesBackwards + 1 : 1;
    if (this.#probesBackwards <= maxProbesBackwards) return;
    this.#finalizedBefore = this.#finalizedHigh;
    this.#finalizedHigh = finalized;
    this.#probesBackwards = 0;
    this.changes++;
    this.hasRestarted = true;
  }
}

/** A value that was unknown before does not count as a change. */
function isAnother(last: Observation, now: Observation): boolean {
  return (
    last.genesis !== now.genesis ||
    (last.version !== undefined && last.version !== now.version) ||
    (last.runtime !== undefined && last.runtime !== now.runtime)
  );
}
