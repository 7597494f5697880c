/**
 * The service `ledger`: pools of Substrate nodes. Implemented in plugins/ledger/ledger. The service `proofs`: answers of
 * nodes that are proved against the chain. Implemented in plugins/proofs.
 */
import type { CallReporter, Exchange, Memory } from "sluice-gateway/plugin";
import type { Decoder } from "./decoder.ts";
import type { LedgerAnswer, LedgerCalls, LedgerFailure, LedgerMethod } from "./ledger-calls.ts";
import type { LedgerArchive } from "./ledger-archive.ts";
import type { LedgerFollows } from "./ledger-follows.ts";
import type { LedgerSubmissions } from "./ledger-submissions.ts";
import type { LedgerSubscriptions } from "./ledger-subscriptions.ts";
import type { ChargeLine } from "./meter.ts";

declare module "sluice-gateway/plugin" {
  interface ServiceTypes {
    ledger: Ledgers;
    proofs: Proofs;
  }
}

/** Pools and their decoders by name in `upstreams`, undefined if there is none. */
export interface Ledgers {
  pool(upstream: string): Ledger | undefined;
  decoder(upstream: string): Decoder | undefined;
}

export interface LedgerNode {
  /** Host and port, without credentials, and different for each node of the pool. */
  readonly name: string;
  /**
   * Calls a method of this node alone. Nothing is cached, shared, retried or charged; the time limits and the maximum
   * size of answers of the upstream apply. `params`: JSON text of an array. The bytes of the answer belong to the caller.
   * Never rejects.
   */
  call(method: string, params: string): Promise<LedgerAnswer>;
  /**
   * Stops using the node for 10 minutes, and each following time for twice as long, because its answer was proved to be
   * wrong. It is used nevertheless while no other node is usable.
   */
  distrust(): void;
  readonly isDistrusted: boolean;
}

export interface Ledger extends LedgerCalls {
  /** The nodes in the order of the configuration. */
  readonly nodes: readonly LedgerNode[];
  /** The whitelisted methods, by the names that clients use. */
  readonly methods: ReadonlyMap<string, LedgerMethod>;
  /** Removes an answer from the cache, because it is proved to be wrong. */
  forget(method: LedgerMethod, params: Buffer): void;
  /**
   * Reads and prices a JSON-RPC body, a call or a batch (decisions.md section 5). Sends nothing yet. `over`: the
   * transport of the client (default `http`). Over WebSocket, `rpc_methods` also lists the subscriptions.
   * `websocket-write` is for clients that may write: it also has `author_submitExtrinsic`, and lists the methods of
   * `submissions`.
   */
  rpc(body: Buffer, over?: "http" | "websocket" | "websocket-write"): LedgerRpc;
  /** Subscriptions, for clients that can be sent notifications. */
  readonly subscriptions: LedgerSubscriptions;
  /** The methods `chainHead_v1_*`, for the same clients. */
  readonly follows: LedgerFollows;
  /** The subscriptions `archive_v1_*`, for the same clients. */
  readonly archive: LedgerArchive;
  /** Submitting extrinsics, for clients that may write and can be sent notifications. */
  readonly submissions: LedgerSubmissions;
}

/** The caller of a JSON-RPC body, such as an exchange. */
export interface RpcCaller {
  readonly clientLeft: boolean;
  /** The connections to a node are shared fairly among the groups of callers. */
  readonly facts?: Pick<Exchange["facts"], "caller">;
}

export type RpcAnswer = string | Uint8Array | readonly Uint8Array[] | undefined;

/** A JSON-RPC body that can be run. Reserve its cost, call `run` once, then settle its `lines`. */
export interface LedgerRpc {
  /** Sum of the costs of its calls. 0 if no credit needs to be reserved. */
  readonly costMilliCu: number;
  /**
   * Runs the calls. Returns the JSON-RPC answer in UTF-8, which must not be modified. Undefined if the body contains
   * only notifications. Synchronous if all answers are available at once. Never rejects. After the caller has
   * disconnected, or when the answer of a batch has reached its maximum size (32 MiB, over WebSocket 4 MiB), the calls
   * of the batch that have not started are skipped. They are not charged. `memory`: counts the answer of a batch while
   * it is being built.
   */
  run(caller?: RpcCaller, memory?: Memory): RpcAnswer | Promise<RpcAnswer>;
  /**
   * Call it instead of `run`. Returns the answer in which every valid call has this error. Undefined if the body
   * contains only notifications. `error`: JSON text.
   */
  refuse(error: string): string | undefined;
  /**
   * Call it after `run`, when the caller does not need the answer any more. What the calls keep of the body is released,
   * and no further call of a batch is sent. Calls that a node has received continue, and are charged when it answers.
   */
  release(): void;
  /** After `run`: the lines to charge, one per call that a node has answered. */
  readonly lines: readonly Pick<ChargeLine, "method" | "costMilliCu">[];
  /** After `run`: the reason if no call of the body was answered. */
  readonly failure: LedgerFailure | undefined;
  /**
   * Reports each call of the body, but not notifications. Call it after `run`, or instead of `run` if the body was
   * refused. `refusedWith`: the code of the refusal.
   */
  report(to: CallReporter, refusedWith?: string): void;
}

export interface Proofs {
  /** Undefined if the upstream has neither `checkpoint` nor `proof`. */
  prover(upstream: string): Prover | undefined;
}

export interface Prover {
  /**
   * Returns what to run instead of `rpc` in order to prove the answer. Undefined if neither the upstream nor the client
   * asks for proofs.
   */
  prove(call: UnprovedCall): ProvedRpc | undefined;
  /**
   * Answers a call of the gateway itself like `Ledger.call`, with a proof if there is one. Undefined if the upstream
   * does not ask for proofs.
   */
  readonly call: ((...call: Parameters<Ledger["call"]>) => Promise<ProvedAnswer>) | undefined;
  /**
   * Returns the JSON-RPC error for a subscription or a follow, which cannot be proved, as JSON text with its code for
   * logs. Undefined if they are allowed. `wanted`: see `UnprovedCall`.
   */
  refusal(
    wanted: string | undefined,
  ): { readonly code: string; readonly error: string } | undefined;
}

/** `proof`: as in `ProvedRpc`. */
export interface ProvedAnswer {
  readonly answer: LedgerAnswer;
  readonly proof: string;
}

export interface UnprovedCall {
  /** The result of `ledger.rpc(body, over)`. It has not run. */
  readonly rpc: LedgerRpc;
  readonly body: Buffer;
  /** Default: `http`. */
  readonly over?: Parameters<Ledger["rpc"]>[1];
  /** The value of the header `X-Sluice-Proof` of the request or the handshake. */
  readonly wanted: string | undefined;
}

export interface ProvedRpc extends LedgerRpc {
  /** After `run`: the value of the response header `X-Sluice-Proof` (decisions.md section 18). */
  readonly proof: string;
}
