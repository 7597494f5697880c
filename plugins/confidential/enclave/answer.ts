/** One answer of the model inside an enclave: asked for, batched, and summed up when it ends, however it does. */
import type { Clock } from "../../../src/services/clock.ts";
import type {
  AnswerReader,
  InferenceCall,
  InferenceFailure,
  InferenceResult,
  Offer,
} from "../../../src/services/networks.ts";
import type { Finish, ReportTokens } from "../protocol/usage-report.ts";
import { isJsonObject } from "../protocol/strict-json.ts";
import type { ChatRequest, Refusal } from "./chat-request.ts";
import { createDeltaBatch, type DeltaBatch } from "./delta-batch.ts";

/** How an answer ended: what `final` says and the report is made of. */
export interface AnswerOutcome {
  /** The model's own word where it has one. */
  readonly finishReason: string;
  readonly finish: Finish;
  /** Undefined: nothing was produced. */
  readonly result: InferenceResult | undefined;
  readonly error: Refusal | undefined;
}

export interface AnswerDeps {
  readonly clock: Clock;
  /** Sends one chunk's plaintext. */
  readonly send: (data: Uint8Array) => void;
  /** Called once, unless the answer was abandoned. */
  readonly ended: (outcome: AnswerOutcome) => void;
}

export class EnclaveAnswer implements AnswerReader {
  readonly #deps: AnswerDeps;
  readonly #batch: DeltaBatch;
  readonly #call: InferenceCall;
  #isOver = false;
  #isPaused = false;

  constructor(offer: Offer, request: ChatRequest, deps: AnswerDeps) {
    const { body, promptBytes, maxTokens } = request;
    this.#deps = deps;
    this.#batch = createDeltaBatch(deps.clock, deps.send);
    this.#call = offer.send({ body, streamed: true, promptBytes, maxTokens }, this);
  }

  /** The peer has no room: the model waits. */
  pause(): void {
    this.#isPaused = true;
    this.#batch.hold();
    this.#call.pause();
  }

  resume(): void {
    this.#isPaused = false;
    this.#batch.release();
    // What waited may have filled the room that there was.
    if (!this.#isPaused) this.#call.resume();
  }

  /** Ends it, and sums up what was produced. */
  cancel(): void {
    if (this.#isOver) return;
    this.#end({ finishReason: "cancel", finish: "cancel", result: this.#call.abort() });
  }

  /** Ends it; nobody is told, and what waits is dropped. What was produced comes back, for the bill. */
  abandon(): InferenceResult | undefined {
    this.#isOver = true;
    this.#batch.close();
    return this.#call.abort();
  }

  // What the model says.

  choice(bytes: Buffer, start: number, end: number): void {
    if (this.#isOver) return;
    const choice = parse(bytes.toString("utf8", start, end));
    const delta = isJsonObject(choice) ? choice["delta"] : undefined;
    if (isJsonObject(delta)) this.#batch.add(delta);
  }

  arrived(): void {}

  ended(result: InferenceResult): void {
    const { finishReason = "stop" } = result;
    this.#end({ finishReason, finish: finishReason === "length" ? "length" : "stop", result });
  }

  failed(failure: InferenceFailure, result: InferenceResult | undefined): void {
    this.#end({ finishReason: "error", finish: "error", result, error: errors[failure] });
  }

  #end(outcome: Omit<AnswerOutcome, "error"> & { readonly error?: Refusal }): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#batch.flush();
    this.#batch.close();
    this.#deps.ended({ error: undefined, ...outcome });
  }
}

const errors: Readonly<Record<InferenceFailure, Refusal>> = {
  rejected: { code: "INVALID_REQUEST", message: "the model does not take this request" },
  notServed: { code: "MODEL_NOT_AVAILABLE", message: "the model is not served here now" },
  unavailable: { code: "UPSTREAM_FAILED", message: "the model cannot be reached" },
  broken: { code: "UPSTREAM_FAILED", message: "the answer broke off" },
  timedOut: { code: "TIMEOUT", message: "the model did not answer in time" },
};

/** Where nothing was asked of the model. */
export function refused(error: Refusal): AnswerOutcome {
  return { finishReason: "error", finish: "error", result: undefined, error };
}

/** Where the client ended it, by whatever means. `result` undefined: nothing had been produced. */
export function cancelled(result?: InferenceResult): AnswerOutcome {
  return { finishReason: "cancel", finish: "cancel", result, error: undefined };
}

/**
 * `most`: what the client agreed to. No more is reported, whatever the model says of itself, and no part above its
 * whole.
 */
export function tokensOf(result: InferenceResult | undefined, most: number): ReportTokens {
  if (result === undefined) return { prompt: 0, completion: 0, cached: 0, reasoning: 0 };
  const { promptTokens, completionTokens, cachedTokens, reasoningTokens } = result.usage;
  const completion = Math.min(completionTokens, most);
  return {
    prompt: promptTokens,
    completion,
    cached: Math.min(cachedTokens ?? 0, promptTokens),
    reasoning: Math.min(reasoningTokens ?? 0, completion),
  };
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    // A chunk that is no JSON tells nothing; the model's end or failure is told all the same.
    return undefined;
  }
}
