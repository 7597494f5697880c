/** A network with scripted workers, and readers that record their calls. */
import assert from "node:assert/strict";
import type {
  AnswerReader,
  InferenceCall,
  InferenceFailure,
  InferenceResult,
  ModelOverride,
  NetworkConfig,
  NetworkKind,
  WholeMessage,
} from "sluice-gateway/services";
import { Network } from "../../../../plugins/inference/networks/network.ts";
import { observed, type Observed } from "./observed-services.ts";

export const model = "Test/Model-1";
export const price = {
  prices: { pricePerTokenNano: "12" },
  rate: { kind: "fixed", usd: "0.25" },
} as const;

export interface Opened extends AsyncDisposable {
  readonly network: Network;
  readonly seen: Observed;
  /** Replaces the overrides of the operator. */
  override(...overrides: readonly ModelOverride[]): void;
  /** Sends a request to the model and records what its reader receives. */
  ask(over?: AskOptions): Asked;
  /** Reads the next due document again: the status or the rate. */
  readAgain(): Promise<void>;
}

interface AskOptions {
  readonly streamed?: boolean;
  readonly body?: Buffer;
  readonly promptBytes?: number;
  readonly headers?: readonly string[];
  readonly modelId?: string;
  /** Pauses after each arrival, before anything else happens. */
  readonly pauses?: boolean;
}

/** Opens a network. Disposing it asserts that no worker has a request in flight. */
export async function openNetwork(
  url: string,
  over: Partial<NetworkConfig> = {},
  random: () => number = () => 0,
  kind?: NetworkKind,
): Promise<Opened> {
  const seen = observed();
  let overrides: ReadonlyMap<string, ModelOverride> = new Map();
  const config: NetworkConfig = {
    name: "net",
    kind: "openai",
    url,
    origins: [],
    statusUrl: undefined,
    statusMs: 1_000_000,
    ...price,
    headers: {},
    connectMs: 2_000,
    idleMs: 10_000,
    answerMs: 60_000,
    maxOutputTokens: 1_000,
    prompt: { passes: [], imageTokens: 4_096, contextTokens: undefined },
    speaks: ["embeddings"],
    affinity: "session",
    ...over,
  };
  const network = new Network(config, { ...seen, overrides: () => overrides, random, kind });
  await network.settled;
  const isPause = (ms: number): boolean => ms > 800_000;
  return {
    network,
    seen,
    override(...more) {
      overrides = new Map(more.map((one) => [one.id, one]));
    },
    ask: (options) => ask(network, options),
    async readAgain() {
      const read = seen.timer(isPause);
      const before = seen.timers.length;
      // The time advances only until the answer begins, which sets its limit of 5 s, so that the answer has time to
      // end.
      while (!seen.timers.slice(before).includes(5_000)) seen.clock.advance(1_000);
      await read;
    },
    async [Symbol.asyncDispose]() {
      assert.deepEqual(busyWorkers(network), []);
      await network.close();
    },
  };
}

/** Returns the workers with a request in flight. */
export function busyWorkers(network: Network): string[] {
  return [...network.workers].filter((one) => one.inFlight !== 0).map((one) => one.id);
}

export type Ending =
  | {
      readonly kind: "ended";
      readonly result: InferenceResult;
      readonly message: WholeMessage | undefined;
    }
  | {
      readonly kind: "failed";
      readonly failure: InferenceFailure;
      readonly result: InferenceResult | undefined;
    };

export interface Asked {
  readonly call: InferenceCall;
  /** The parsed choices that the reader received. */
  readonly choices: readonly Choice[];
  /** The whole content that the reader received. */
  readonly text: string;
  readonly ending: Promise<Ending>;
  /** Resolves after the next `arrived`. */
  arrived(): Promise<void>;
  /** Number of calls of `arrived`. */
  readonly arrivals: number;
}

interface Choice {
  readonly delta: {
    readonly content?: string;
    readonly reasoning_content?: string;
  };
  readonly finish_reason: string | null;
}

export function ask(network: Network, options: AskOptions = {}): Asked {
  const { streamed = true, promptBytes = 20, headers, modelId = model } = options;
  const { body = Buffer.from(JSON.stringify({ model, stream: streamed, ...usage })) } = options;
  const offer = network.models.get(modelId);
  assert.ok(offer, "the model is listed");
  const choices: Choice[] = [];
  const { promise: ending, resolve } = Promise.withResolvers<Ending>();
  let over = false;
  const end = (how: Ending): void => {
    assert.ok(!over, "the end is reported once");
    over = true;
    resolve(how);
  };
  const awaiting: (() => void)[] = [];
  let arrivals = 0;
  const reader: AnswerReader = {
    onChoice(bytes, start, finish) {
      assert.ok(!over);
      const text = bytes.toString("utf8", start, finish);
      assert.doesNotMatch(text, /[\r\n]/, "a choice is on one line");
      // Tests read only members of a choice that their scripts wrote.
      choices.push(JSON.parse(text) as Choice);
    },
    onRead() {
      assert.ok(!over);
      if (options.pauses === true) call.pause();
      arrivals++;
      for (const notify of awaiting.splice(0)) notify();
    },
    onEnd: (result, message) => end({ kind: "ended", result, message }),
    onError: (failure, result) => end({ kind: "failed", failure, result }),
  };
  const call = offer.send({ body, streamed, promptBytes, headers }, reader);
  return {
    call,
    choices,
    get text() {
      return choices.map(({ delta }) => delta.content ?? "").join("");
    },
    ending,
    arrived: () => new Promise((arrived) => void awaiting.push(arrived)),
    get arrivals() {
      return arrivals;
    },
  };
}

const usage = { stream_options: { include_usage: true } };

/** Returns the result of an answer that ended normally. */
export async function resultOf(asked: Asked): Promise<InferenceResult> {
  const ending = await asked.ending;
  if (ending.kind === "failed") assert.fail(`failed: ${ending.failure}`);
  return ending.result;
}

/** Returns the failure of an answer, and the result that is charged. */
export async function failureOf(
  asked: Asked,
): Promise<{ readonly failure: InferenceFailure; readonly result: InferenceResult | undefined }> {
  const ending = await asked.ending;
  if (ending.kind === "ended") assert.fail("it was answered");
  return { failure: ending.failure, result: ending.result };
}
