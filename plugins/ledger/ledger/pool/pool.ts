/**
 * Spreads calls over the nodes of an upstream. A call goes to the less busy of two usable nodes taken in turn; a read
 * that fails there moves on to at most two others.
 */
import type { Clock } from "../../../../src/services/clock.ts";
import type { Log } from "../../../../src/services/log.ts";
import type { Metrics } from "../../../../src/services/metrics.ts";
import type { NodePool, NodeRequest, NodeStatus } from "../node.ts";
import { Call } from "./call.ts";
import type { Failure } from "./failure.ts";
import { othersMayKnow } from "./node-error.ts";
import { openNodes, type NodesConfig } from "./open-node.ts";
import type { PooledNode } from "./pooled-node.ts";
import { Roster } from "./roster.ts";

/** The first node and two more. */
const mostAttempts = 3;

export interface PoolOptions {
  readonly upstream: NodesConfig;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
  /** Cheap calls of one turn ride as one batch over HTTP (default true). */
  readonly merge?: boolean;
}

export interface OpenPool extends NodePool {
  /** Probes every node now; resolves when all have answered or failed. */
  probe(): Promise<void>;
  status(): readonly NodeStatus[];
}

/** Connects to the nodes of an upstream and starts to probe them. Throws for a url that is none. */
export function openPool(options: PoolOptions): OpenPool {
  const { upstream, clock, log, metrics, merge = true } = options;
  const nodes = openNodes({ upstream, clock, metrics, merge });
  return new Pool(new Roster({ ...upstream, nodes, clock, log }), clock);
}

class Pool implements OpenPool {
  readonly #roster: Roster;
  readonly #clock: Clock;
  #turn = 0;

  constructor(roster: Roster, clock: Clock) {
    this.#roster = roster;
    this.#clock = clock;
  }

  get finalized(): number | undefined {
    return this.#roster.finalized;
  }

  get best(): number | undefined {
    return this.#roster.best;
  }

  get epoch(): number {
    return this.#roster.epoch;
  }

  get ready(): boolean {
    return this.#roster.usable.length > 0;
  }

  get firstProbe(): Promise<void> {
    return this.#roster.firstProbe;
  }

  probe(): Promise<void> {
    return this.#roster.probe();
  }

  status(): readonly NodeStatus[] {
    return this.#roster.nodes.map(({ label, complaint, observed, client }) => ({
      node: label,
      complaint,
      best: observed?.best,
      finalized: observed?.finalized,
      inFlight: client.inFlight,
    }));
  }

  send(request: NodeRequest): void {
    const node = this.#choose(0);
    if (node === undefined) return queueMicrotask(() => request.failed("unreachable"));
    this.#sendTo(node, new PooledCall(request, this, node));
  }

  close(): Promise<void> {
    return this.#roster.close();
  }

  /** A node has answered: true when that is the answer, false when the call goes on to another node. */
  takes(
    call: PooledCall,
    kind: "result" | "error",
    bytes: Buffer,
    start: number,
    end: number,
  ): boolean {
    const { node } = call;
    node.metrics.seconds.observe((this.#clock.monotonic() - call.sentAt) / 1000);
    if (node.succeeded()) this.#roster.review();
    if (kind === "result") return true;
    const next = this.#next(call);
    if (next === undefined || !othersMayKnow(bytes, start, end)) return true;
    call.held ??= Buffer.from(bytes.subarray(start, end));
    this.#sendTo(next, call);
    return false;
  }

  /** A node has failed: true when that is the end, false when the call goes on to another node. */
  gives(call: PooledCall, failure: Failure): boolean {
    const { node } = call;
    node.metrics.failed(failure);
    if (failure.blame) this.#roster.failed(node);
    const next = failure.elsewhere ? this.#next(call) : undefined;
    if (next === undefined) return true;
    this.#sendTo(next, call);
    return false;
  }

  #sendTo(node: PooledNode, call: PooledCall): void {
    call.node = node;
    call.tried |= bitOf(node);
    call.attempts++;
    call.sentAt = this.#clock.monotonic();
    node.client.send(call);
  }

  /** Where a call may be tried again; undefined: nowhere. */
  #next(call: PooledCall): PooledNode | undefined {
    return call.retry && call.attempts < mostAttempts ? this.#choose(call.tried) : undefined;
  }

  /** The less busy of the next two nodes that are not among `tried`; undefined when all are. */
  #choose(tried: number): PooledNode | undefined {
    const { usable, lastResort } = this.#roster;
    const nodes = usable.length > 0 ? usable : lastResort;
    this.#turn = (this.#turn + 1) % nodes.length || 0;
    let first: PooledNode | undefined;
    for (let i = 0; i < nodes.length; i++) {
      const node = nodes[(this.#turn + i) % nodes.length];
      if (node === undefined || (tried & bitOf(node)) !== 0) continue;
      if (first !== undefined) return node.client.inFlight < first.client.inFlight ? node : first;
      first = node;
    }
    return first;
  }
}

/** Beyond 32 nodes two share a bit: one of them is then not tried, which does no harm. */
function bitOf(node: PooledNode): number {
  return 1 << node.index;
}

/** A request on its way through the nodes. */
class PooledCall extends Call {
  readonly #request: NodeRequest;
  readonly #pool: Pool;
  /** The node that has it. */
  node: PooledNode;
  /** The nodes that have had it. */
  tried = 0;
  attempts = 0;
  /** Milliseconds of the monotonic clock when `node` got it. */
  sentAt = 0;
  /** A node's own error that another node might not give, for when none does better. */
  held: Buffer | undefined;

  constructor(request: NodeRequest, pool: Pool, node: PooledNode) {
    super(request);
    this.#request = request;
    this.#pool = pool;
    this.node = node;
  }

  answered(kind: "result" | "error", bytes: Buffer, start: number, end: number): void {
    if (!this.#pool.takes(this, kind, bytes, start, end)) return;
    this.#request.answered(kind, bytes, start, end);
  }

  fail(failure: Failure): void {
    if (!this.#pool.gives(this, failure)) return;
    const { held } = this;
    if (held !== undefined) this.#request.answered("error", held, 0, held.length);
    else this.#request.failed(failure.reason);
  }
}
