/**
 * Probes the health of a node. Tolerates padded numbers ("0x00000001"), errors without a code and nodes that serve only
 * some of the methods, because such nodes exist. Only the head and the genesis hash are required.
 */
import { failureText } from "sluice-gateway/internal/http";
import type { Clock, UpstreamFailure } from "sluice-gateway/plugin";
import { isObject } from "sluice-gateway/internal/toolkit";
import { failures, type Failure, NodeCall, type NodeClient } from "./node-call.ts";
import { isBusy, readSmallJson } from "./node-error.ts";

/** Members are undefined if the node did not report them. */
export interface Observation {
  readonly genesis: string;
  readonly best: number;
  readonly bestHash: string | undefined;
  readonly finalized: number | undefined;
  readonly finalizedHash: string | undefined;
  readonly syncing: boolean;
  /** False if the node should have peers and has none. */
  readonly hasNeededPeers: boolean;
  readonly version: string | undefined;
  /** Name and version of the runtime at the best block. */
  readonly runtime: string | undefined;
}

export type ProbeResult =
  | { readonly kind: "observed"; readonly observed: Observation }
  | ProbeFailed;

export interface ProbeFailed {
  readonly kind: "failed";
  readonly failure: Failure;
  readonly cause: UpstreamFailure;
  /** Description of the failure for the log. It contains no text from the node. */
  readonly detail: string;
}

export type Reply = { readonly kind: "value"; readonly value: unknown } | ProbeFailed;

/** Never rejects. The calls are sent one by one, to put little load on the node. `limit`: time limit of each call. */
export async function probe(client: NodeClient, limit: TimeLimit): Promise<ProbeResult> {
  const call = (method: string, params?: readonly unknown[]): Promise<Reply> =>
    ask(client, method, params, limit);
  const health = await call("system_health");
  if (health.kind === "failed") return health;
  const header = await call("chain_getHeader");
  if (header.kind === "failed") return header;
  const genesis = await call("chain_getBlockHash", [0]);
  if (genesis.kind === "failed") return genesis;
  const best = blockNumber(header.value);
  if (best === undefined) return bad("chain_getHeader", "a header without a block number");
  if (!isHash(genesis.value)) return bad("chain_getBlockHash", "no block hash");
  const bestHash = await call("chain_getBlockHash", [best]);
  if (bestHash.kind === "failed") return bestHash;
  const finalizedHash = await call("chain_getFinalizedHead");
  if (finalizedHash.kind === "failed") return finalizedHash;
  const finalized = isHash(finalizedHash.value)
    ? await call("chain_getHeader", [finalizedHash.value])
    : finalizedHash;
  if (finalized.kind === "failed") return finalized;
  const version = await call("system_version");
  if (version.kind === "failed") return version;
  const runtime = await call("state_getRuntimeVersion");
  if (runtime.kind === "failed") return runtime;
  return {
    kind: "observed",
    observed: {
      genesis: genesis.value,
      best,
      bestHash: hashOf(bestHash.value),
      finalized: blockNumber(finalized.value),
      finalizedHash: hashOf(finalizedHash.value),
      ...readHealth(health.value),
      version: typeof version.value === "string" ? version.value : undefined,
      runtime: readRuntime(runtime.value),
    },
  };
}

interface TimeLimit {
  readonly clock: Clock;
  readonly ms: number;
}

/** A node's error is a reply without a value, unless it means that the node is busy. */
export async function ask(
  client: NodeClient,
  method: string,
  params: readonly unknown[] = [],
  limit?: TimeLimit,
): Promise<Reply> {
  const { promise, resolve } = Promise.withResolvers<Reply>();
  const call = new ProbeCall(method, params, resolve);
  using _timer = limit?.clock.after(limit.ms, () =>
    call.onError(failures.answerTimeout, { kind: "answerTimeout", timeoutMs: limit.ms }),
  );
  client.send(call);
  return await promise;
}

class ProbeCall extends NodeCall {
  readonly #done: (reply: Reply) => void;

  constructor(method: string, params: readonly unknown[], done: (reply: Reply) => void) {
    super({ method, params: JSON.stringify(params), retry: true, cheap: false });
    this.#done = done;
  }

  onAnswer(kind: "result" | "error", bytes: Buffer, start: number, end: number): void {
    const value = readSmallJson(bytes, start, end);
    if (kind === "result") this.#done({ kind: "value", value });
    else if (isBusy(value)) this.onError(failures.saturated);
    else this.#done({ kind: "value", value: undefined });
  }

  onError(failure: Failure, cause: UpstreamFailure = { kind: failure.kind }): void {
    // Valid HTTP can be anything but JSON-RPC, for example a web page.
    const text = failure === failures.garbage ? "not a JSON-RPC answer" : failureText(cause);
    this.#done({ kind: "failed", failure, cause, detail: `${this.spec.method}: ${text}` });
  }
}

function bad(method: string, what: string): ProbeFailed {
  const cause = { kind: "garbage" } as const;
  return { kind: "failed", failure: failures.garbage, cause, detail: `${method}: ${what}` };
}

/** Limits the length, because the hash is logged. */
function isHash(value: unknown): value is string {
  return typeof value === "string" && /^0x[0-9a-f]{1,128}$/i.test(value);
}

function hashOf(value: unknown): string | undefined {
  return isHash(value) ? value.toLowerCase() : undefined;
}

function readHealth(value: unknown): {
  readonly syncing: boolean;
  readonly hasNeededPeers: boolean;
} {
  if (!isObject(value)) return { syncing: false, hasNeededPeers: true };
  return {
    syncing: value.isSyncing === true,
    hasNeededPeers: value.shouldHavePeers !== true || value.peers !== 0,
  };
}

function readRuntime(value: unknown): string | undefined {
  if (!isObject(value) || typeof value.specVersion !== "number") return undefined;
  return `${String(value.specName)}/${value.specVersion}`;
}

export function blockNumber(header: unknown): number | undefined {
  if (!isObject(header)) return undefined;
  const { number } = header;
  const value =
    typeof number === "string" && /^0x[0-9a-f]+$/i.test(number) ? Number(number) : number;
  return typeof value === "number" && Number.isSafeInteger(value) && value >= 0 ? value : undefined;
}
