/**
 * The ledger: a pool of nodes behind a whitelist, a cache and single flight. The service that plugins call `Ledger`.
 */
import type { PoolConfig } from "./options.ts";
import type { Clock } from "../../../src/services/clock.ts";
import type {
  Ledger,
  LedgerAnswer,
  LedgerMethod,
  LedgerRpc,
} from "../../../src/services/ledger.ts";
import type { Log } from "../../../src/services/log.ts";
import type { Metrics } from "../../../src/services/metrics.ts";
import { ownBody, type Body } from "./body.ts";
import { Calls } from "./calls.ts";
import type { Waiter } from "./flight.ts";
import type { NodeFailure, NodePool, NodeStatus } from "./node.ts";
import { readRpc } from "./rpc.ts";
import { createInternal, createWhitelist } from "./whitelist.ts";

export interface LedgerService extends Ledger {
  /** True while at least one node is usable. */
  readonly ready: boolean;
  /** Resolves when it is known which nodes are usable; never rejects. Calls before that go to the first node alone. */
  readonly settled: Promise<void>;
  /** Its nodes, as an operator sees them. */
  nodes(): readonly NodeStatus[];
  /** Ends the pool; calls in flight fail. */
  close(): Promise<void>;
}

export interface LedgerParts {
  readonly upstream: PoolConfig;
  readonly pool: NodePool;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
}

/** Opens the ledger over a pool, which it owns from then on. */
export function openLedger({ upstream, pool, metrics }: LedgerParts): LedgerService {
  const methods = createWhitelist(upstream);
  const internal = createInternal(upstream, methods);
  const calls = new Calls(upstream, methods, internal, pool, metrics);
  const { batchParallel } = upstream;
  return {
    methods,
    internal(name) {
      const method = methods.get(name) ?? internal.get(name);
      if (method === undefined) throw new Error(`${name} is not a method that the gateway knows`);
      return method;
    },
    get ready() {
      return pool.ready;
    },
    settled: pool.firstProbe,
    rpc: (body): LedgerRpc => readRpc(body, calls, batchParallel),
    call: (method, params, options) => callOnce(calls, method, params, options?.signal),
    nodes: () => pool.status?.() ?? [],
    close: () => pool.close(),
  };
}

const aborted: LedgerAnswer = { kind: "failed", reason: "aborted" };

function callOnce(
  calls: Calls,
  method: LedgerMethod,
  params: Buffer,
  signal: AbortSignal | undefined,
): LedgerAnswer | Promise<LedgerAnswer> {
  const lane = calls.lanes.get(method.name) ?? calls.internal.get(method.name);
  if (lane === undefined) throw new Error(`${method.name} is not on the whitelist`);
  if (signal?.aborted === true) return aborted;
  const caller = new Caller(signal);
  const body = calls.ask(lane, params.toString(), caller);
  return body === undefined ? caller.promise : { kind: "result", bytes: bytesOf(body) };
}

function bytesOf(body: Body): Buffer {
  return typeof body === "string" ? Buffer.from(body) : body;
}

/** Waits for one answer, or until its signal says that nobody wants it any more; the call itself goes on. */
class Caller implements Waiter {
  readonly #signal: AbortSignal | undefined;
  #resolve: ((answer: LedgerAnswer) => void) | undefined;
  #promise: Promise<LedgerAnswer> | undefined;

  constructor(signal: AbortSignal | undefined) {
    this.#signal = signal;
  }

  get promise(): Promise<LedgerAnswer> {
    this.#promise ??= new Promise((resolve) => {
      this.#resolve = resolve;
      this.#signal?.addEventListener("abort", this.#leave, { once: true });
    });
    return this.#promise;
  }

  answered(kind: "result" | "error", body: Body): void {
    this.#end({ kind, bytes: bytesOf(ownBody(body)) });
  }

  failed(reason: NodeFailure): void {
    this.#end({ kind: "failed", reason });
  }

  readonly #leave = (): void => this.#end(aborted);

  #end(answer: LedgerAnswer): void {
    this.#signal?.removeEventListener("abort", this.#leave);
    this.#resolve?.(answer);
  }
}
