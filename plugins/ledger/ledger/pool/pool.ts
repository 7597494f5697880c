/**
 * Distributes calls over the nodes of an upstream. A call is sent to the less busy of two usable nodes, which are
 * chosen round-robin among those that have its block. A read that fails is retried on at most two other nodes.
 */
import { causeOf, chooseBackend, failureCounter, roundRobin } from "sluice-gateway/internal/http";
import type { Clock, Log, Metrics, Threads, UpstreamFailure } from "sluice-gateway/plugin";
import type { LedgerAnswer, LedgerNode } from "sluice-gateway/services";
import type { BlockOfCall, NodePool, NodeRequest, NodeStatus, NodeTarget } from "../node-pool.ts";
import { isFinalizedHead } from "../methods.ts";
import { failures, type Failure } from "./failure.ts";
import { discardedState, isRetryableElsewhere } from "./node-error.ts";
import { openNodes, type NodesConfig } from "./open-node.ts";
import { NodeBlocks } from "./node-blocks.ts";
import { Hedging } from "./hedging.ts";
import { NodeHealth } from "./node-health.ts";
import { poolMetrics, type PoolMetrics } from "./node-metrics.ts";
import { Attempt, PooledCall, type AttemptListener } from "./pooled-call.ts";
import type { PooledNode } from "./pooled-node.ts";
import { QuorumCall } from "./quorum-call.ts";
import { readHead } from "./read-head.ts";
import { Floor } from "./floor.ts";
import { Reference } from "./reference.ts";

/** The first attempt and two more. */
const maxAttempts = 3;

export interface PoolOptions {
  readonly upstream: NodesConfig;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly threads?: Threads | undefined;
}

export class Pool implements NodePool, AttemptListener {
  readonly reference: Reference;
  readonly nodes: readonly LedgerNode[];
  readonly #health: NodeHealth;
  readonly #clock: Clock;
  readonly #metrics: PoolMetrics;
  readonly #countFailure: (failure: UpstreamFailure) => void;
  /** Undefined for a single node, which cannot disagree. */
  readonly #blocks: NodeBlocks | undefined;
  readonly #hedging: Hedging | undefined;
  readonly #sampler = roundRobin(1);
  #chain = 0;

  /** Throws if a URL is invalid. */
  constructor({ upstream, clock, log, metrics, threads }: PoolOptions) {
    const nodes = openNodes({ upstream, clock, log, metrics });
    const isAlone = nodes.length === 1;
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
      floor: new Floor(threads, upstream.name),
      clock,
      log,
    });
    const onReviewed = (): void => this.#onReviewed();
    this.#health = new NodeHealth({ ...upstream, nodes, clock, log, onReviewed });
  }

  get finalized(): number | undefined {
    return this.#health.finalized;
  }

  get best(): number | undefined {
    return this.#health.best;
  }

  get epoch(): number {
    return this.#health.epoch;
  }

  get chain(): number {
    return this.#health.chain;
  }

  get ready(): boolean {
    return this.#health.usable.length > 0;
  }

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

  targets(block?: BlockOfCall): readonly NodeTarget[] {
    const nodes = this.#callable;
    const having = this.#blocks?.nodesWith(block, nodes, this.finalized) ?? nodes;
    const rank = (node: PooledNode): number => (having.includes(node) ? 0 : 1);
    const best = ({ observed }: PooledNode): number => observed?.best ?? 0;
    return nodes.toSorted((a, b) => rank(a) - rank(b) || best(b) - best(a));
  }

  send(request: NodeRequest): void {
    if ((request.quorum ?? 1) > 1) {
      const quorum = new QuorumCall(request, this.#metrics, (asked, except) =>
        this.#ask(asked, except),
      );
      return quorum.start();
    }
    if (this.#blocks !== undefined && isFinalizedHead(request.method))
      return void this.#readHead(request);
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

  onAnswer(
    attempt: Attempt,
    kind: "result" | "error",
    bytes: Buffer,
    start: number,
    end: number,
  ): void {
    const { call, node, sentAt } = attempt;
    const { method } = call.request;
    const ms = this.#clock.monotonic() - sentAt;
    node.metrics.seconds.observe(ms / 1000);
    this.#hedging?.answered(method, ms);
    this.#judge(attempt, kind, bytes, start, end);
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
    const { chain, nodes, best } = this.#health;
    // Clients may know blocks that were reported before the chain was first known.
    if (chain !== this.#chain && this.#chain !== 0) this.reference.reset();
    if (chain !== this.#chain) this.#blocks?.clear();
    this.#chain = chain;
    this.#blocks?.review(nodes, best);
    this.reference.review();
  }

  #readHead(request: NodeRequest): Promise<void> {
    return readHead(request, {
      reference: this.reference,
      clock: this.#clock,
      send: (node, { method, params, cheap, caller }) =>
        this.#callNode(node, { method, params, cheap, caller }),
      probe: () => this.#health.probe(),
    });
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

  #judge(
    attempt: Attempt,
    kind: "result" | "error",
    bytes: Buffer,
    start: number,
    end: number,
  ): void {
    const { call, node } = attempt;
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
