/** The ledger tools with a scripted node and a scripted decoder, called as every transport calls them. */
import assert from "node:assert/strict";
import type {
  DecodedJson,
  DecodeFailure,
  Decoder,
  Ledger,
  LedgerAnswer,
  LedgerFailure,
  Prompt,
  ToolOutcome,
  Tools,
} from "sluice-gateway/services";
import ledgerTools from "../../../../plugins/ledger/ledger-tools/index.ts";
import { createMetrics } from "../../../../src/base/metrics.ts";
import { manualClock, type ManualClock } from "../../../../src/testing/clock.ts";
import { startLedger, type LedgerOptions } from "../ledger/start-ledger.ts";
import { startCatalogue, toolCaller, type Caller } from "../../tools/tool-catalogue/fixture.ts";
import { fakeHost } from "../../fakes.ts";
import { withDefaults } from "../../with-defaults.ts";
import { address } from "../../wrong-inputs.ts";

/** JSON text of a result or of an error, or the reason why there is neither. */
export type Said = string | { readonly error: string } | { readonly failed: LedgerFailure };

const unknownMethod: Said = { error: '{"code":-32601,"message":"Method not found"}' };

/** A call's answer by `method params`, or else by method. Everything else is answered with -32601. */
function answerOf(script: Readonly<Record<string, Said>>, method: string, params: string) {
  const said = script[`${method} ${params}`] ?? script[method] ?? unknownMethod;
  if (typeof said === "object" && "failed" in said)
    return { kind: "failed", reason: said.failed } satisfies LedgerAnswer;
  const [kind, text] =
    typeof said === "string" ? (["result", said] as const) : (["error", said.error] as const);
  return { kind, bytes: Buffer.from(text) } satisfies LedgerAnswer;
}

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
  readonly catalogue: Tools;
  readonly prompts: readonly Prompt[];
  /** The calls to the node, as `method params`, in order. */
  readonly asked: readonly string[];
  readonly decoding: readonly string[];
  readonly clock: ManualClock;
  call(tool: string, input: unknown, caller?: Caller): Promise<ToolOutcome>;
}

export interface ToolsScript {
  readonly node?: Readonly<Record<string, Said>>;
  readonly decoder?: DecoderScript;
  readonly options?: Partial<Parameters<typeof ledgerTools.start>[0]>;
  readonly upstream?: LedgerOptions;
  readonly onAsked?: () => void;
}

export async function scriptedTools(script: ToolsScript = {}): Promise<ScriptedTools> {
  const { node = {}, options = {}, upstream = {}, onAsked = () => {} } = script;
  const clock = manualClock();
  const metrics = createMetrics();
  const decoding: string[] = [];
  const decoder = scriptedDecoder(script.decoder ?? {}, decoding, onAsked);
  const started = await startLedger(["http://127.0.0.1:1"], upstream);
  // Only the methods of the plugin are used.
  await started.close();
  const asked: string[] = [];
  const ledger: Ledger = {
    ...started.ledger,
    async call({ name }, given) {
      const params = given.toString();
      asked.push(`${name} ${params}`.trim());
      onAsked();
      return answerOf(node, name, params);
    },
  };
  const host = fakeHost(
    { clock, metrics },
    { ledger: { pool: () => ledger, decoder: () => decoder } },
  );
  const hooks = await ledgerTools.start(withDefaults(ledgerTools, options), host);
  const { catalogue, problems } = await startCatalogue({ "ledger-tools": hooks }, { clock });
  assert.deepEqual(problems, []);
  return {
    catalogue,
    prompts: catalogue.prompts,
    asked,
    decoding,
    clock,
    call: async (tool, input, caller = toolCaller()) => catalogue.call(tool, input, caller),
  };
}

export function resultOf(outcome: ToolOutcome): unknown {
  assert(outcome.ok, JSON.stringify(outcome));
  return JSON.parse(outcome.json);
}

export function failureOf(outcome: ToolOutcome): readonly [string, string] {
  assert(!outcome.ok, JSON.stringify(outcome));
  return [outcome.code, outcome.message];
}
