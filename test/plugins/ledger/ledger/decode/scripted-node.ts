import type { Decoder, Ledger, LedgerAnswer } from "sluice-gateway/services";
import { openComputePool, type ComputePool } from "../../../../../src/compute/pool.ts";
import { ChainDecoder } from "../../../../../plugins/ledger/ledger/decode/decoder.ts";
import { createMetrics } from "../../../../../src/base/metrics.ts";
import { manualClock, type ManualClock } from "../../../../../src/testing/clock.ts";
import { silentLog } from "../../../../test-log.ts";
import { eventsKey, type Chain } from "./chains.ts";

/** A JSON value, or one of: the node's own error, no answer, bytes that are not JSON. */
export type Said =
  | { readonly value: unknown }
  | { readonly text: string }
  | "error"
  | "failed"
  | "aborted";
export type Script = Readonly<Record<string, (...params: readonly string[]) => Said>>;

export interface ScriptedNode extends AsyncDisposable {
  readonly decoder: Decoder;
  readonly clock: ManualClock;
  readonly compute: ComputePool;
  /** The calls as `method(params)`, in order. */
  readonly calls: string[];
  asked(method: string): number;
}

export function scriptedNode(script: Script): ScriptedNode {
  const clock = manualClock();
  const compute = openComputePool({
    clock,
    log: silentLog,
    metrics: createMetrics(),
    threads: 1,
  });
  const calls: string[] = [];
  const ledger: Ledger = {
    nodes: [],
    methods: new Map(),
    internal: (name) => ({ name, params: [], cuMilli: 0 }),
    forget() {},
    async call(method, params) {
      calls.push(`${method.name}${params.toString()}`);
      const answer = script[method.name];
      if (answer === undefined) throw new Error(`${method.name} is not in the script`);
      return answerOf(answer(...(JSON.parse(params.toString()) as string[])));
    },
    subscriptions: {
      subscribing: new Map(),
      unsubscribing: new Map(),
      nameOf: () => undefined,
      open: () => Promise.resolve({ kind: "failed" }),
    },
    follows: { methods: undefined, open: () => Promise.resolve({ kind: "failed" }) },
    archive: {
      methods: new Map(),
      stopping: new Map(),
      open: () => Promise.resolve({ kind: "failed" }),
    },
    submissions: {
      methods: new Map(),
      ending: new Map(),
      submit: () => Promise.resolve({ kind: "failed" }),
    },
    rpc: () => {
      throw new Error("the decoder sends no bodies");
    },
  };
  return {
    decoder: new ChainDecoder({ ledger, compute, clock }),
    clock,
    compute,
    calls,
    asked: (method) => calls.filter((call) => call.startsWith(`${method}[`)).length,
    [Symbol.asyncDispose]: () => compute.close(),
  };
}

function answerOf(said: Said): LedgerAnswer {
  if (said === "error")
    return { kind: "error", bytes: Buffer.from('{"code":4003,"message":"secret"}') };
  if (said === "failed") return { kind: "failed", reason: "unreachable" };
  if (said === "aborted") return { kind: "failed", reason: "aborted" };
  const text = "text" in said ? said.text : JSON.stringify(said.value);
  return { kind: "result", bytes: Buffer.from(text) };
}

/** The answers of an archive node for a recorded chain that has one runtime. */
export function honest(chain: Chain): Script {
  const blockAt = (hash: string | undefined): Chain["blocks"][number] | undefined =>
    hash === undefined ? chain.blocks.at(-1) : chain.blocks.find((block) => block.hash === hash);
  return {
    chain_getBlockHash: () => ({ value: chain.blocks.at(-1)?.hash ?? null }),
    chain_getHeader: (hash) => ({ value: blockAt(hash)?.result.block.header ?? null }),
    state_getRuntimeVersion: () => ({ value: chain.runtimeVersion }),
    state_getMetadata: () => ({ value: chain.metadata }),
    state_getStorage: (key, hash) => {
      const block = blockAt(hash);
      if (block === undefined) return "error";
      return { value: key === eventsKey ? block.events : null };
    },
  };
}
