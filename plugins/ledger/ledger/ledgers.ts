import type { BackendStatus, Host, ServiceContext, ServiceHooks } from "sluice-gateway/plugin";
import type {
  Decoder,
  Ledger,
  LedgerAnswer,
  LedgerMethod,
  LedgerRpc,
  Ledgers,
} from "sluice-gateway/services";
import { ArchiveReads } from "./archive/archive-reads.ts";
import { CallDispatcher } from "./call-dispatcher.ts";
import { ChainDecoder } from "./decode/decoder.ts";
import { Feed } from "./feed/feed.ts";
import { Follows } from "./follow/follows.ts";
import { copyBody, type JsonBody } from "./json-body.ts";
import type { MethodState } from "./method-state.ts";
import type { NodeStatus } from "./node-pool.ts";
import { poolConfig, type Options, type PoolConfig } from "./options.ts";
import { Floor } from "./pool/floor.ts";
import { Pool, type LedgerDeps } from "./pool/pool.ts";
import { readRpc, type RpcContext } from "./rpc.ts";
import { Submissions } from "./submit/submissions.ts";
import {
  createFeedMethods,
  createFollowMethods,
  followNames,
  submitMethod,
} from "./websocket-methods.ts";
import { createInternal, createWhitelist, listMethod, methodListOf } from "./whitelist.ts";

/** A reload keeps the decoder with the metadata that has been read. */
interface Chain {
  readonly pool: Pool;
  readonly ledger: Ledger;
  readonly decoder: Decoder;
  close(): Promise<void>;
}

export function openLedgers(
  options: Options,
  host: Host,
  { keep, isDefault }: ServiceContext,
): ServiceHooks<Ledgers> {
  const inUse = new Map<string, Chain>();
  const chainOf = (name: string): Chain | undefined => {
    const config = poolConfig(options, name, host);
    if (config === undefined) return undefined;
    const floor = keep(
      `floor of ${name}`,
      () => new Floor(host.threads, name),
      () => {},
    );
    const open = (): Chain => openChain(config, floor, host);
    const chain = keep(JSON.stringify(config), open, (opened) => opened.close());
    inUse.set(name, chain);
    return chain;
  };
  return {
    service: {
      pool: (name) => chainOf(name)?.ledger,
      decoder: (name) => chainOf(name)?.decoder,
    },
    async initialized() {
      // Until it is known which nodes are usable, calls go to the first node only.
      await Promise.all(Array.from(inUse.values(), ({ pool }) => pool.firstProbe));
    },
    backends: () =>
      Array.from(inUse, ([name, { pool }]) =>
        statusOf(name, pool, isDefault(`/upstreams/${name}/urls`)),
      ),
  };
}

function openChain(upstream: PoolConfig, floor: Floor, host: Host): Chain {
  const { clock, log, metrics, compute } = host;
  const shared = { upstream, clock, log, metrics };
  const pool = new Pool({ ...shared, floor });
  const { ledger, close } = openLedger({ ...shared, pool });
  return { pool, ledger, close, decoder: new ChainDecoder({ ledger, compute, clock }) };
}

/** No address is part of the reasons, because /readyz shows them. */
function causeOf(nodes: readonly NodeStatus[]): string {
  const causes = nodes.map(({ exclusionReason, probeFailure }) =>
    probeFailure === undefined ? exclusionReason : `${exclusionReason}: ${probeFailure}`,
  );
  return [...new Set(causes)].join(", ");
}

function statusOf(name: string, pool: Pool, isDefault: boolean): BackendStatus {
  const nodes = pool.status();
  return {
    kind: "ledger",
    title: `upstream ${name}`,
    ready: pool.ready ? true : "no usable node",
    cause: causeOf(nodes),
    isDefault,
    details: {
      name,
      ready: pool.ready,
      nodes: nodes.map((node) => ({
        name: node.node,
        state: node.exclusionReason ?? "usable",
        best: node.best,
        finalized: node.finalized,
        oldest_state: node.oldestState,
        ...node.absence,
      })),
    },
  };
}

/** decisions.md sections 5 and 14. A larger answer could not be sent over WebSocket. */
const maxBatchBytes = { http: 32 * 1_048_576, webSocket: 4 * 1_048_576 };

function openLedger(deps: LedgerDeps): Pick<Chain, "ledger" | "close"> {
  const { upstream, pool, metrics } = deps;
  const methods = createWhitelist(upstream);
  const internal = createInternal(upstream, methods);
  const calls = new CallDispatcher(upstream, methods, internal, pool, metrics);
  const feedMethods = createFeedMethods(upstream);
  const subscriptions = new Feed({ ...deps, methods: feedMethods });
  const methodsOfFollows = createFollowMethods(upstream);
  const follows = new Follows({ ...deps, methods: methodsOfFollows, cache: calls.cache });
  const archive = new ArchiveReads(deps);
  const webSocketNames = [
    ...feedMethods.subscribing.keys(),
    ...feedMethods.unsubscribing.keys(),
    ...(follows.methods === undefined ? [] : followNames),
    ...archive.methods.keys(),
    ...archive.stopping.keys(),
  ];
  const submissions = new Submissions(deps);
  const submit =
    upstream.methods[submitMethod] === false ? undefined : calls.internal.get(submitMethod);
  const withSubmit =
    submit === undefined ? calls.listed : new Map(calls.listed).set(submitMethod, submit);
  const writeNames = [
    ...webSocketNames,
    ...submissions.methods.keys(),
    ...submissions.ending.keys(),
  ];
  const contextOf = (listed: RpcContext["listed"], batchBytes: number): RpcContext => ({
    listed,
    calls,
    batchParallel: upstream.batchParallel,
    batchBytes,
  });
  const contexts = {
    http: contextOf(calls.listed, maxBatchBytes.http),
    websocket: contextOf(withMethods(calls.listed, webSocketNames), maxBatchBytes.webSocket),
    "websocket-write": contextOf(withMethods(withSubmit, writeNames), maxBatchBytes.webSocket),
  };
  const ledger: Ledger = {
    methods,
    internal(name) {
      const method = methods.get(name) ?? internal.get(name);
      if (method === undefined) throw new Error(`unknown node method ${name}`);
      return method;
    },
    rpc: (body, over = "http"): LedgerRpc => readRpc(body, contexts[over]),
    subscriptions,
    follows,
    archive,
    submissions,
    call: (method, params, options) => callOnce(calls, method, params, options),
    forget: (method, params) => calls.forget(stateOf(calls, method), params.toString()),
    nodes: pool.nodes,
  };
  return {
    ledger,
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

/** An abort of the caller's signal ends the wait, but not the call itself. */
function callOnce(
  calls: CallDispatcher,
  method: LedgerMethod,
  params: Buffer,
  { signal, caller }: NonNullable<Parameters<Ledger["call"]>[2]> = {},
): LedgerAnswer | Promise<LedgerAnswer> {
  const methodState = stateOf(calls, method);
  if (signal?.aborted === true) return aborted;
  const { promise, resolve } = Promise.withResolvers<LedgerAnswer>();
  const leave = (): void => end(aborted);
  const end = (answer: LedgerAnswer): void => {
    signal?.removeEventListener("abort", leave);
    resolve(answer);
  };
  const body = calls.call(methodState, params.toString(), {
    caller,
    onAnswer: (kind, answered) => end({ kind, bytes: bytesOf(copyBody(answered)) }),
    onError: (reason, cause) => end({ kind: "failed", reason, cause }),
  });
  if (body !== undefined) return { kind: "result", bytes: bytesOf(body) };
  signal?.addEventListener("abort", leave, { once: true });
  return promise;
}

function stateOf(calls: CallDispatcher, { name }: LedgerMethod): MethodState {
  const methodState = calls.listed.get(name) ?? calls.internal.get(name);
  if (methodState === undefined) throw new Error(`${name} is not on the whitelist`);
  return methodState;
}

function bytesOf(body: JsonBody): Buffer {
  return typeof body === "string" ? Buffer.from(body) : body;
}
