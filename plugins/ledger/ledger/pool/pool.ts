/**
 * Distributes calls over the nodes of an upstream. A call goes to the less busy of two usable nodes, which are chosen
 * round-robin. A read that fails is retried on at most two other nodes.
 */
import { chooseBackend, roundRobin } from "sluice-gateway/http";
import type { Clock, Log, Metrics } from "sluice-gateway/plugin";
import type { NodePool, NodeRequest, NodeStatus, NodeTarget } from "../node-pool.ts";
import { NodeCall } from "./node-call.ts";
import type { Failure } from "./failure.ts";
import { isRetryableElsewhere } from "./node-error.ts";
import { openNodes, type NodesConfig } from "./open-node.ts";
import type { PooledNode } from "./pooled-node.ts";
import { NodeHealth } from "./node-health.ts";

/** The first attempt and two retries. */
const maxAttempts = 3;

export interface PoolOptions {
  readonly upstream: NodesConfig;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
  /** True if the cheap calls of one turn of the event loop are sent as one batch over HTTP (default true). */
  readonly batching?: boolean;
}

export interface OpenPool extends NodePool {
  /** Probes every node now. Resolves when all have answered or failed. */
  probe(): Promise<void>;
  status(): readonly NodeStatus[];
}

/** Connects to the nodes of an upstream and starts to probe them. Throws if a URL is invalid. */
export function openPool(options: PoolOptions): OpenPool {
  const { upstream, clock, log, metrics, batching = true } = options;
  const nodes = openNodes({ upstream, clock, log, metrics, batching });
  return new Pool(new NodeHealth({ ...upstream, nodes, clock, log }), clock);
}

class Pool implements OpenPool {
  readonly #health: NodeHealth;
  readonly #clock: Clock;
  readonly #sampler = roundRobin(1);

  constructor(health: NodeHealth, clock: Clock) {
    this.#health = health;
    this.#clock = clock;
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

  get ready(): boolean {
    return this.#health.usable.length > 0;
  }

  get firstProbe(): Promise<void> {
    return this.#health.firstProbe;
  }

  probe(): Promise<void> {
    return this.#health.probe();
  }

  status(): readonly NodeStatus[] {
    return this.#health.nodes.map(({ label, exclusionReason, observed, client }) => ({
      node: label,
      exclusionReason,
      best: observed?.best,
      finalized: observed?.finalized,
      inFlight: client.inFlight,
    }));
  }

  targets(): readonly NodeTarget[] {
    const { usable, lastResort } = this.#health;
    const nodes = usable.length > 0 ? usable : lastResort;
    return nodes.toSorted((a, b) => (b.observed?.best ?? 0) - (a.observed?.best ?? 0));
  }

  send(request: NodeRequest): void {
    const node = this.#choose();
    if (node === undefined) return queueMicrotask(() => request.onError("unreachable"));
    this.#sendTo(node, new PooledCall(request, this, node));
  }

  close(): Promise<void> {
    return this.#health.close();
  }

  /** Called when a node has answered. Returns true if the answer is final, false if the call is retried elsewhere. */
  onAnswer(
    call: PooledCall,
    kind: "result" | "error",
    bytes: Buffer,
    start: number,
    end: number,
  ): boolean {
    const { node } = call;
    node.metrics.seconds.observe((this.#clock.monotonic() - call.sentAt) / 1000);
    if (node.succeeded()) this.#health.review();
    if (kind === "result") return true;
    const next = this.#next(call);
    if (next === undefined || !isRetryableElsewhere(bytes, start, end)) return true;
    call.nodeError ??= Buffer.from(bytes.subarray(start, end));
    this.#sendTo(next, call);
    return false;
  }

  /** Called when a node did not answer. Returns true if the call has failed, false if it is retried elsewhere. */
  onError(call: PooledCall, failure: Failure): boolean {
    const { node } = call;
    node.metrics.failed(failure);
    if (failure.countsAgainstNode) this.#health.failed(node);
    const next = failure.retryElsewhere ? this.#next(call) : undefined;
    if (next === undefined) return true;
    this.#sendTo(next, call);
    return false;
  }

  #sendTo(node: PooledNode, call: PooledCall): void {
    call.node = node;
    call.sentAt = this.#clock.monotonic();
    node.client.send(call);
  }

  /** Returns the node on which a call is retried. Undefined if it must not be retried, or no node is left. */
  #next(call: PooledCall): PooledNode | undefined {
    if (!call.retry || call.tried.length + 1 >= maxAttempts) return undefined;
    call.tried = [...call.tried, call.node];
    return this.#choose(call.tried);
  }

  /** Returns the less busy of the next two nodes that are not in `tried`. Undefined if all nodes are. */
  #choose(tried?: readonly PooledNode[]): PooledNode | undefined {
    const { usable, lastResort } = this.#health;
    return chooseBackend(usable.length > 0 ? usable : lastResort, this.#sampler, tried);
  }
}

/** A request with the nodes that it was sent to. */
class PooledCall extends NodeCall {
  readonly #request: NodeRequest;
  readonly #pool: Pool;
  /** The node that is working on the call. */
  node: PooledNode;
  /** The nodes that the call was sent to before. */
  tried: readonly PooledNode[] = [];
  /** Time of the monotonic clock in milliseconds when the call was sent to `node`. */
  sentAt = 0;
  /** A node's error that is answered if no other node gives a better answer. */
  nodeError: Buffer | undefined;

  constructor(request: NodeRequest, pool: Pool, node: PooledNode) {
    super(request);
    this.#request = request;
    this.#pool = pool;
    this.node = node;
  }

  onAnswer(kind: "result" | "error", bytes: Buffer, start: number, end: number): void {
    if (!this.#pool.onAnswer(this, kind, bytes, start, end)) return;
    this.#request.onAnswer(kind, bytes, start, end);
  }

  onError(failure: Failure): void {
    if (!this.#pool.onError(this, failure)) return;
    const { nodeError } = this;
    if (nodeError !== undefined) this.#request.onAnswer("error", nodeError, 0, nodeError.length);
    else this.#request.onError(failure.reason);
  }
}
