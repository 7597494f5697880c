/**
 * Distributes calls over the nodes of an upstream. A call is sent to the less busy of two usable nodes, which are
 * chosen round-robin among those that have its block. A read that fails is retried on at most two other nodes.
 */
import { causeOf, chooseBackend, failureCounter, roundRobin } from "sluice-gateway/internal/http";
import type { Clock, UpstreamFailure } from "sluice-gateway/plugin";
import type { LedgerAnswer, LedgerNode } from "sluice-gateway/services";
import type {
  AnswerKind,
  BlockOfCall,
  NodeRequest,
  NodesDeps,
  NodeStatus,
  NodeTarget,
} from "../node-pool.ts";
import { isFinalizedHead } from "../methods.ts";
import { discardedState, isRetryableElsewhere } from "./node-error.ts";
import { NodeBlocks } from "./node-blocks.ts";
import { Hedging } from "./hedging.ts";
import { NodeHealth } from "./node-health.ts";
import { poolMetrics, type PoolMetrics } from "./node-metrics.ts";
import { failures, type Failure, NodeCall } from "./node-call.ts";
import { PooledCall } from "./pooled-call.ts";
import { openNodes, type PooledNode } from "./pooled-node.ts";
import { QuorumCall } from "./quorum-call.ts";
import { readHead, type HeadReadDeps } from "./read-head.ts";
import type { Floor } from "./floor.ts";
import { Reference } from "./reference.ts";

/** The first attempt and two more. */
const maxAttempts = 3;

/** Dependencies of the classes that use the nodes. */
export interface LedgerDeps extends NodesDeps {
  readonly pool: Pool;
}

interface PoolDeps extends NodesDeps {
  readonly floor: Floor;
}

export class Pool {
  readonly reference: Reference;
  readonly nodes: readonly LedgerNode[];
  readonly #health: NodeHealth;
  readonly #floor: Floor;
  readonly #clock: Clock;
  readonly #metrics: PoolMetrics;
  readonly #countFailure: (failure: UpstreamFailure) => void;
  /** Undefined for a single node, which cannot disagree. */
  readonly #blocks: NodeBlocks | undefined;
  readonly #hedging: Hedging | undefined;
  readonly #headReads: HeadReadDeps;
  readonly #sampler = roundRobin(1);
  #chain = 0;

  /** Throws if a URL is invalid. */
  constructor({ upstream, clock, log, metrics, floor }: PoolDeps) {
    const nodes = openNodes({ upstream, clock, log, metrics });
    const isAlone = nodes.length === 1;
    this.#floor = floor;
    this.#clock = clock;
    this.#metrics = poolMetrics(metrics, upstream.name);
    this.#countFailure = failureCounter(upstream.name, metrics);
    this.#blocks = isAlone ? undefined : new NodeBlocks(clock);
    this.#hedging =
      isAlone || !upstream.hedging ? undefined : new Hedging(clock, (call) => this.#hedge(call));
    this.nodes = nodes.map((node) => ({
      name: node.label,
      call: (method, params) => this.#callNode(node, { method, params }),
      distrust: () => this.#health.distrust(node),
      get isDistrusted() {
        return node.distrust.isEjected;
      },
    }));
    this.reference = new Reference({
      nodes,
      callable: () => this.#callable,
      probe: () => this.#health.probe(),
      floor,
      clock,
      log,
    });
    this.#headReads = {
      reference: this.reference,
      clock,
      send: (node, { method, params, cheap, caller }) =>
        this.#callNode(node, { method, params, cheap, caller }),
      probe: () => this.#health.probe(),
    };
    const onReviewed = (): void => this.#onReviewed();
    this.#health = new NodeHealth({ ...upstream, nodes, clock, log, onReviewed });
  }

  /**
   * Number of the highest finalized block that every usable node has. Undefined while no node is usable, because a node
   * that is asked anyway may not have it.
   */
  get finalized(): number | undefined {
    return this.#health.finalized;
  }

  /** Undefined before the first probe. */
  get best(): number | undefined {
    return this.#health.best;
  }

  /**
   * Increases when the genesis, software version or runtime version of the nodes changes, when their genesis is first
   * known, and when an answer of a node is proved to be wrong. Every cache is emptied then. It does not change when a
   * node is added, removed or lags.
   */
  get epoch(): number {
    return this.#health.epoch;
  }

  /**
   * Increases when the chain of the nodes changes or starts again, but not with their software or runtime. 0 while the
   * chain is not known.
   */
  get chain(): number {
    return this.#health.chain;
  }

  get ready(): boolean {
    return this.#health.usable.length > 0;
  }

  /** Resolves when the first probe of every node has succeeded or failed. Never rejects. */
  get firstProbe(): Promise<void> {
    return this.#health.firstProbe;
  }

  status(): readonly NodeStatus[] {
    return this.#health.nodes.map((node) => ({
      node: node.label,
      exclusionReason: node.exclusionReason,
      probeFailure: node.failedProbe && causeOf(node.failedProbe.cause),
      absence: node.absence,
      best: node.observed?.best,
      finalized: node.observed?.finalized,
      oldestState: node.oldestState,
    }));
  }

  /**
   * Returns the nodes for subscriptions, the best first: the usable ones, or, while none is usable, those that are
   * tried as a last resort. `block`: nodes that have it are first.
   */
  targets(block?: BlockOfCall): readonly NodeTarget[] {
    const nodes = this.#callable;
    const having = this.#blocks?.nodesWith(block, nodes, this.finalized) ?? nodes;
    const rank = (node: PooledNode): number => (having.includes(node) ? 0 : 1);
    const best = ({ observed }: PooledNode): number => observed?.best ?? 0;
    return nodes.toSorted((a, b) => rank(a) - rank(b) || best(b) - best(a));
  }

  /** Sends one call. Never throws. The call ends with its answer or at the pool's time limits: see also `onCarrier`. */
  send(request: NodeRequest): void {
    if ((request.quorum ?? 1) > 1) {
      const quorum = new QuorumCall(request, this.#metrics, (asked, except) =>
        this.#ask(asked, except),
      );
      return quorum.start();
    }
    if (this.#blocks !== undefined && isFinalizedHead(request.method))
      return void readHead(request, this.#headReads);
    const call = new PooledCall(request, this.#clock.monotonic());
    const node = this.#choose(call);
    if (node === undefined) return queueMicrotask(() => call.giveUp(undefined));
    this.#sendTo(node, call);
    if (request.retry) this.#hedging?.sent(call);
  }

  async close(): Promise<void> {
    this.#hedging?.close();
    this.#blocks?.close();
    this.reference.close();
    await this.#health.close();
  }

  onAnswer(attempt: Attempt, kind: AnswerKind, bytes: Buffer, start: number, end: number): void {
    const { call, node, sentAt } = attempt;
    const ms = this.#clock.monotonic() - sentAt;
    node.metrics.seconds.observe(ms / 1000);
    this.#hedging?.answered(call.request.method, ms);
    call.attempts--;
    const isFinal =
      kind === "result"
        ? this.#isFinalResult(attempt, bytes, start, end)
        : this.#isFinalError(attempt, bytes, start, end);
    if (call.isDone) return;
    if (isFinal) {
      if (call.isHedged) this.#metrics.hedged(node === call.tried[0] ? "lost" : "won");
      return call.answer(kind, bytes, start, end);
    }
    call.keep(kind, bytes, start, end);
    if (call.attempts === 0) this.#retry(call, undefined);
  }

  onError(
    { call, node }: Attempt,
    failure: Failure,
    known: UpstreamFailure = { kind: failure.kind },
  ): void {
    const cause = { ...known, address: node.label, backend: node.label };
    this.#countFailure(cause);
    node.metrics.failed(cause);
    if (failure.countsAgainstNode) this.#health.failed(node, cause);
    call.attempts--;
    if (call.isDone || call.attempts > 0) return;
    this.#retry(call, failure, cause);
  }

  #onReviewed(): void {
    const { chain, genesis, nodes, best } = this.#health;
    if (genesis !== undefined) this.#floor.setChain(genesis);
    // Clients may know blocks that were reported before the chain was first known.
    if (chain !== this.#chain && this.#chain !== 0) this.reference.reset();
    if (chain !== this.#chain) this.#blocks?.clear();
    this.#chain = chain;
    this.#blocks?.review(nodes, best);
    this.reference.review();
  }

  #callNode(
    node: PooledNode,
    call: Pick<NodeRequest, "method" | "params" | "caller"> & { readonly cheap?: boolean },
  ): Promise<LedgerAnswer> {
    return new Promise((resolve) => {
      const request: NodeRequest = {
        cheap: false,
        ...call,
        retry: false,
        onAnswer: (kind, bytes, start, end) =>
          resolve({ kind, bytes: Buffer.from(bytes.subarray(start, end)) }),
        onError: (reason, cause) => resolve({ kind: "failed", reason, cause }),
      };
      this.#sendTo(node, new PooledCall(request, this.#clock.monotonic()));
    });
  }

  #isFinalResult({ call, node }: Attempt, bytes: Buffer, start: number, end: number): boolean {
    const verdict = this.#blocks?.judgeResult(call.request, node, bytes, start, end) ?? "fine";
    if (verdict !== "fault") {
      this.#succeeded(node);
      return verdict === "fine";
    }
    const cause: UpstreamFailure = { kind: failures.unusable.kind, address: node.label };
    this.#countFailure(cause);
    node.metrics.failed(cause);
    this.#health.failed(node, cause);
    return false;
  }

  #isFinalError({ call, node }: Attempt, bytes: Buffer, start: number, end: number): boolean {
    this.#succeeded(node);
    if (!isRetryableElsewhere(bytes, start, end)) return true;
    if (discardedState(bytes, start, end)) this.#blocks?.discarded(call.request.block, node);
    return false;
  }

  #succeeded(node: PooledNode): void {
    if (node.succeeded()) this.#health.review();
  }

  #retry(call: PooledCall, failure: Failure | undefined, cause?: UpstreamFailure): void {
    const mayRetry = call.request.retry && failure?.retryElsewhere !== false;
    const next = mayRetry ? this.#next(call) : undefined;
    if (next === undefined) call.giveUp(failure, cause);
    else this.#sendTo(next, call);
  }

  #hedge(call: PooledCall): boolean {
    const node = call.request.retry ? this.#next(call) : undefined;
    if (node === undefined) return false;
    call.isHedged = true;
    this.#sendTo(node, call);
    return true;
  }

  /** Sends a call to one node only. Undefined if all nodes are among `except`. */
  #ask(request: NodeRequest, except: readonly PooledNode[]): PooledNode | undefined {
    const call = new PooledCall(request, this.#clock.monotonic());
    const node = this.#choose(call, except);
    if (node !== undefined) this.#sendTo(node, call);
    return node;
  }

  #sendTo(node: PooledNode, call: PooledCall): void {
    call.tried.push(node);
    call.attempts++;
    call.request.onAttempt?.(node);
    node.client.send(new Attempt(call, node, this.#clock.monotonic(), this));
  }

  #next(call: PooledCall): PooledNode | undefined {
    if (call.tried.length >= maxAttempts) return undefined;
    // A block that is new to clients came from the reference.
    const { node } = this.reference;
    const isNew = call.request.block?.hash !== undefined && node !== undefined;
    return isNew && !call.tried.includes(node) ? node : this.#choose(call, call.tried);
  }

  /** The usable nodes, or, while there are none, the last resort. */
  get #callable(): readonly PooledNode[] {
    const { usable, lastResort } = this.#health;
    return usable.length > 0 ? usable : lastResort;
  }

  /** Prefers the nodes that have the block of the call. Undefined if all nodes are among `except`. */
  #choose({ request }: PooledCall, except: readonly PooledNode[] = none): PooledNode | undefined {
    const nodes = this.#callable;
    const having = this.#blocks?.nodesWith(request.block, nodes, this.finalized) ?? nodes;
    const node = chooseBackend(having, this.#sampler, except);
    if (node !== undefined || having === nodes) return node;
    return chooseBackend(nodes, this.#sampler, except);
  }
}

const none: readonly PooledNode[] = [];

class Attempt extends NodeCall {
  readonly call: PooledCall;
  readonly node: PooledNode;
  /** Time of the monotonic clock in milliseconds. */
  readonly sentAt: number;
  readonly #pool: Pool;

  constructor(call: PooledCall, node: PooledNode, sentAt: number, pool: Pool) {
    super(call.request);
    this.call = call;
    this.node = node;
    this.sentAt = sentAt;
    this.#pool = pool;
  }

  onAnswer(kind: AnswerKind, bytes: Buffer, start: number, end: number): void {
    this.#pool.onAnswer(this, kind, bytes, start, end);
  }

  onError(failure: Failure, cause?: UpstreamFailure): void {
    this.#pool.onError(this, failure, cause);
  }
}
