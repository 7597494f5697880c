/** The ledger tools with a scripted node and a scripted decoder, called as every transport calls them. */
import assert from "node:assert/strict";
import type {
  DecodedJson,
  DecodeFailure,
  Decoder,
  Prompt,
  ToolOutcome,
} from "sluice-gateway/services";
import ledgerTools from "../../../../plugins/ledger/ledger-tools/index.ts";
import type { PoolConfig } from "../../../../plugins/ledger/ledger/options.ts";
import { openLedger } from "../../../../plugins/ledger/ledger/open-ledger.ts";
import type {
  NodeFailure,
  NodePool,
  NodeRequest,
} from "../../../../plugins/ledger/ledger/node-pool.ts";
import { createMetrics } from "../../../../src/base/metrics.ts";
import { pluginCounts } from "../../../../src/pipeline/observe/plugin-counts.ts";
import { manualClock, type ManualClock } from "../../../../src/testing/clock.ts";
import {
  createCatalogue,
  type Catalogue,
} from "../../../../plugins/tools/tool-catalogue/catalogue.ts";
import { upstreamConfig } from "../ledger/fixture.ts";
import { toolCaller, type Caller } from "../../tools/tool-catalogue/fixture.ts";
import { fakeHost } from "../../fakes.ts";
import { address } from "../../wrong-inputs.ts";

/** JSON text of a result or of an error, or the reason why there is neither. */
export type Said = string | { readonly error: string } | { readonly failed: NodeFailure };

/** Answers by `method params`, or else by method. Everything else is answered with -32601. */
class ScriptedPool implements NodePool {
  readonly finalized = undefined;
  readonly best = undefined;
  readonly epoch = 1;
  readonly firstProbe = Promise.resolve();
  readonly ready = true;
  readonly asked: string[] = [];
  readonly #script: Readonly<Record<string, Said>>;
  readonly #onAsked: () => void;

  constructor(script: Readonly<Record<string, Said>>, onAsked: () => void) {
    this.#script = script;
    this.#onAsked = onAsked;
  }

  send(request: NodeRequest): void {
    const { method, params } = request;
    const call = `${method} ${params}`;
    this.asked.push(call.trim());
    this.#onAsked();
    const said = this.#script[call] ?? this.#script[method] ?? unknownMethod;
    // The callback is never called before `send` has returned.
    queueMicrotask(() => answer(request, said));
  }

  close(): Promise<void> {
    return Promise.resolve();
  }
}

const unknownMethod: Said = { error: '{"code":-32601,"message":"Method not found"}' };

function answer(request: NodeRequest, said: Said): void {
  if (typeof said === "object" && "failed" in said) return request.onError(said.failed);
  const [kind, text] = typeof said === "string" ? (["result", said] as const) : errorOf(said);
  const bytes = Buffer.from(` ${text} `);
  request.onAnswer(kind, bytes, 1, bytes.length - 1);
  bytes.fill("#");
}

const errorOf = ({ error }: { readonly error: string }) => ["error", error] as const;

/** Results of the decoder. An omitted function must not be called. */
export interface DecoderScript {
  readonly extrinsics?: DecodedJson;
  readonly events?: DecodedJson;
  readonly account?: DecodedJson;
  readonly summary?: Awaited<ReturnType<Decoder["summary"]>>;
}

export const decoded = (json: string): DecodedJson => ({ ok: true, json });
export const undecoded = (reason: DecodeFailure["reason"]): DecodeFailure => ({
  ok: false,
  reason,
});

/** Accepts only the address from which the tests make wrong inputs. */
function scriptedDecoder(script: DecoderScript, asked: string[], onAsked: () => void): Decoder {
  const say = <T>(what: string, said: T | undefined): Promise<T> => {
    asked.push(what);
    onAsked();
    assert(said !== undefined, `the decoder is asked for ${what}`);
    return Promise.resolve(said);
  };
  const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString("hex");
  return {
    extrinsics: (block, hash) => say(`extrinsics ${hash} ${String(block)}`, script.extrinsics),
    events: (hash) => say(`events ${hash}`, script.events),
    account: (id, hash) => say(`account ${hex(id)} ${hash ?? "best"}`, script.account),
    accountId: (given) => (given === address ? Uint8Array.of(0xd4) : undefined),
    summary: (extrinsic) => say(`summary ${hex(extrinsic)}`, script.summary),
  };
}

export interface ScriptedTools {
  readonly catalogue: Catalogue;
  readonly prompts: readonly Prompt[];
  /** The calls to the node, as `method params`, in order. */
  readonly asked: readonly string[];
  /** The calls to the decoder. */
  readonly decoding: readonly string[];
  readonly clock: ManualClock;
  call(tool: string, input: unknown, caller?: Caller): Promise<ToolOutcome>;
}

export interface ToolsScript {
  readonly node?: Readonly<Record<string, Said>>;
  readonly decoder?: DecoderScript;
  readonly options?: Parameters<typeof ledgerTools.start>[0];
  readonly upstream?: Partial<PoolConfig>;
  /** Called after each call to the node or the decoder. */
  readonly onAsked?: () => void;
}

export async function scriptedTools(script: ToolsScript = {}): Promise<ScriptedTools> {
  const { node = {}, options = {}, upstream = {}, onAsked = () => {} } = script;
  const clock = manualClock();
  const metrics = createMetrics();
  const pool = new ScriptedPool(node, onAsked);
  const decoding: string[] = [];
  const decoder = scriptedDecoder(script.decoder ?? {}, decoding, onAsked);
  const { log, seal } = fakeHost();
  const ledger = openLedger({
    upstream: upstreamConfig(upstream),
    pool,
    metrics,
    clock,
    log,
  });
  const host = fakeHost(
    { clock, metrics },
    { ledger: { pool: () => ledger, decoder: () => decoder } },
  );
  const { tools, prompts = [] } = await ledgerTools.start(options, host);
  const claimed = new Set<string>();
  const claims = {
    now: () => clock.now(),
    claim: async (id: string) => !claimed.has(id) && claimed.add(id).has(id),
  };
  const catalogue = createCatalogue({ clock, log, metrics, seal, claims });
  const counts = pluginCounts(ledgerTools, { metrics, clock });
  assert.deepEqual(catalogue.add({ tools }, counts), []);
  return {
    catalogue,
    prompts,
    asked: pool.asked,
    decoding,
    clock,
    call: async (tool, input, caller = toolCaller()) => catalogue.call(tool, input, caller),
  };
}

/** Returns the parsed result of a call that succeeded. */
export function resultOf(outcome: ToolOutcome): unknown {
  assert(outcome.ok, JSON.stringify(outcome));
  return JSON.parse(outcome.json);
}

/** Returns the code and message of a call that failed. */
export function failureOf(outcome: ToolOutcome): readonly [string, string] {
  assert(!outcome.ok, JSON.stringify(outcome));
  return [outcome.code, outcome.message];
}
