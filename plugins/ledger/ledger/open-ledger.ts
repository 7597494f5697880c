import type { Clock, Log, Metrics, UpstreamFailure } from "sluice-gateway/plugin";
import type { Ledger, LedgerAnswer, LedgerMethod, LedgerRpc } from "sluice-gateway/services";
import { ArchiveReads } from "./archive/archive-reads.ts";
import type { PoolConfig } from "./options.ts";
import { copyBody, type JsonBody } from "./json-body.ts";
import { CallDispatcher } from "./call-dispatcher.ts";
import type { CallListener } from "./call-listener.ts";
import type { NodeFailure, NodePool, NodeStatus } from "./node-pool.ts";
import { readRpc } from "./rpc.ts";
import { Feed } from "./feed/feed.ts";
import { createFeedMethods } from "./feed/subscription-methods.ts";
import { createFollowMethods, followNames } from "./follow/follow-methods.ts";
import { Follows } from "./follow/follows.ts";
import type { MethodState } from "./method-state.ts";
import { submitMethod } from "./submit/submission-methods.ts";
import { Submissions } from "./submit/submissions.ts";
import { createInternal, createWhitelist, listMethod, methodListOf } from "./whitelist.ts";

export interface LedgerService extends Ledger {
  readonly ready: boolean;
  /** Resolves when it is known which nodes are usable; never rejects. Until then, calls go to the first node only. */
  readonly settled: Promise<void>;
  status(): readonly NodeStatus[];
  close(): Promise<void>;
}

export interface LedgerDeps {
  readonly upstream: PoolConfig;
  readonly pool: NodePool;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
}

/** decisions.md sections 5 and 14. A larger answer could not be sent over WebSocket. */
const maxBatchBytes = { http: 32 * 1_048_576, webSocket: 4 * 1_048_576 };

export function openLedger(deps: LedgerDeps): LedgerService {
  const { upstream, pool, clock, log, metrics } = deps;
  const methods = createWhitelist(upstream);
  const internal = createInternal(upstream, methods);
  const calls = new CallDispatcher(upstream, methods, internal, pool, metrics);
  const feedMethods = createFeedMethods(upstream);
  const subscriptions = new Feed({ ...deps, methods: feedMethods });
  const follows = new Follows({
    upstream,
    methods: createFollowMethods(upstream),
    pool,
    cache: calls.cache,
    clock,
    log,
    metrics,
  });
  const archive = new ArchiveReads({ upstream, pool, clock, log });
  const { batchParallel } = upstream;
  const overHttp = { listed: calls.listed, calls, batchParallel, batchBytes: maxBatchBytes.http };
  const webSocketNames = [
    ...feedMethods.subscribing.keys(),
    ...feedMethods.unsubscribing.keys(),
    ...(follows.methods === undefined ? [] : followNames),
    ...archive.methods.keys(),
    ...archive.stopping.keys(),
  ];
  const overWebSocket = {
    ...overHttp,
    batchBytes: maxBatchBytes.webSocket,
    listed: withMethods(calls.listed, webSocketNames),
  };
  const submissions = new Submissions({ upstream, pool, clock, log });
  const submit =
    upstream.methods[submitMethod] === false ? undefined : calls.internal.get(submitMethod);
  const withSubmit =
    submit === undefined ? calls.listed : new Map(calls.listed).set(submitMethod, submit);
  const writeNames = [
    ...webSocketNames,
    ...submissions.methods.keys(),
    ...submissions.ending.keys(),
  ];
  const contexts = {
    http: overHttp,
    websocket: overWebSocket,
    "websocket-write": { ...overWebSocket, listed: withMethods(withSubmit, writeNames) },
  };
  return {
    methods,
    internal(name) {
      const method = methods.get(name) ?? internal.get(name);
      if (method === undefined) throw new Error(`unknown node method ${name}`);
      return method;
    },
    get ready() {
      return pool.ready;
    },
    settled: pool.firstProbe,
    rpc: (body, over = "http"): LedgerRpc => readRpc(body, contexts[over]),
    subscriptions,
    follows,
    archive,
    submissions,
    call: (method, params, options) => callOnce(calls, method, params, options),
    forget: (method, params) => calls.forget(stateOf(calls, method), params.toString()),
    nodes: pool.nodes,
    status: () => pool.status(),
    async close() {
      subscriptions.close();
      follows.close();
      archive.close();
      submissions.close();
      await pool.close();
    },
  };
}

function withMethods(
  listed: ReadonlyMap<string, MethodState>,
  more: readonly string[],
): ReadonlyMap<string, MethodState> {
  const list = listed.get(listMethod);
  if (list === undefined) return listed;
  const method = { ...list.method, gatewayAnswer: methodListOf([...listed.keys(), ...more]) };
  return new Map(listed).set(listMethod, { ...list, method });
}

const aborted: LedgerAnswer = { kind: "failed", reason: "aborted" };

function callOnce(
  calls: CallDispatcher,
  method: LedgerMethod,
  params: Buffer,
  { signal, caller: group }: NonNullable<Parameters<Ledger["call"]>[2]> = {},
): LedgerAnswer | Promise<LedgerAnswer> {
  const methodState = stateOf(calls, method);
  if (signal?.aborted === true) return aborted;
  const caller = new Caller(signal, group);
  const body = calls.call(methodState, params.toString(), caller);
  return body === undefined ? caller.promise : { kind: "result", bytes: bytesOf(body) };
}

function stateOf(calls: CallDispatcher, { name }: LedgerMethod): MethodState {
  const methodState = calls.listed.get(name) ?? calls.internal.get(name);
  if (methodState === undefined) throw new Error(`${name} is not on the whitelist`);
  return methodState;
}

function bytesOf(body: JsonBody): Buffer {
  return typeof body === "string" ? Buffer.from(body) : body;
}

/** Waits for one answer or for the abort of the caller's signal. An abort does not end the call itself. */
class Caller implements CallListener {
  readonly caller: string | undefined;
  readonly #signal: AbortSignal | undefined;
  #resolve: ((answer: LedgerAnswer) => void) | undefined;
  #promise: Promise<LedgerAnswer> | undefined;

  constructor(signal: AbortSignal | undefined, group: string | undefined) {
    this.caller = group;
    this.#signal = signal;
  }

  get promise(): Promise<LedgerAnswer> {
    this.#promise ??= new Promise((resolve) => {
      this.#resolve = resolve;
      this.#signal?.addEventListener("abort", this.#leave, { once: true });
    });
    return this.#promise;
  }

  onAnswer(kind: "result" | "error", body: JsonBody): void {
    this.#end({ kind, bytes: bytesOf(copyBody(body)) });
  }

  onError(reason: NodeFailure, cause?: UpstreamFailure): void {
    this.#end({ kind: "failed", reason, cause });
  }

  readonly #leave = (): void => this.#end(aborted);

  #end(answer: LedgerAnswer): void {
    this.#signal?.removeEventListener("abort", this.#leave);
    this.#resolve?.(answer);
  }
}
