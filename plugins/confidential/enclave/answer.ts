/** An answer of the model inside an enclave, from the request to the `final` frame. */
import type { Clock } from "sluice-gateway/plugin";
import type {
  AnswerReader,
  AttemptFailure,
  InferenceCall,
  InferenceFailure,
  InferenceResult,
  Offer,
} from "sluice-gateway/services";
import { isObject } from "sluice-gateway/internal/toolkit";
import type { Finish, ReportTokens } from "../protocol/usage-report.ts";
import type { ChatRequest, Refusal } from "./chat-request.ts";
import { createDeltaBatch, type DeltaBatch } from "./delta-batch.ts";

export interface AnswerOutcome {
  /** The model's own finish reason, if it has one. */
  readonly finishReason: string;
  readonly finish: Finish;
  /** Undefined if nothing was produced. */
  readonly result: InferenceResult | undefined;
  readonly error: Refusal | undefined;
}

export interface AnswerDeps {
  readonly clock: Clock;
  readonly send: (data: Uint8Array) => void;
  /** Called once, unless the answer was aborted. */
  readonly onEnd: (outcome: AnswerOutcome) => void;
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

  pause(): void {
    this.#isPaused = true;
    this.#batch.hold();
    this.#call.pause();
  }

  resume(): void {
    this.#isPaused = false;
    this.#batch.release();
    // Releasing the batch may have filled the peer's buffer again.
    if (!this.#isPaused) this.#call.resume();
  }

  /** Ends the answer. `onEnd` gets the output that was produced so far. */
  cancel(): void {
    if (this.#isOver) return;
    this.#end({ finishReason: "cancel", finish: "cancel", result: this.#call.abort() });
  }

  /** Ends the answer without calling `onEnd` and discards queued deltas. Returns the result so far, for the report. */
  abort(): InferenceResult | undefined {
    this.#isOver = true;
    this.#batch.close();
    return this.#call.abort();
  }

  onChoice(bytes: Buffer, start: number, end: number): void {
    if (this.#isOver) return;
    const choice = parse(bytes.toString("utf8", start, end));
    if (!isObject(choice) || !isObject(choice["delta"])) return;
    const { delta, logprobs } = choice;
    const entries = isObject(logprobs) ? logprobs["content"] : undefined;
    this.#batch.add(delta, Array.isArray(entries) ? entries : []);
  }

  onRead(): void {}

  onEnd(result: InferenceResult): void {
    const { finishReason = "stop" } = result;
    this.#end({ finishReason, finish: finishReason === "length" ? "length" : "stop", result });
  }

  onError(
    failure: InferenceFailure,
    result: InferenceResult | undefined,
    attempt?: AttemptFailure,
  ): void {
    const error = { ...errors[failure], context: attempt?.contextExceeded };
    this.#end({ finishReason: "error", finish: "error", result, error });
  }

  #end(outcome: Omit<AnswerOutcome, "error"> & { readonly error?: Refusal }): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#batch.flush();
    this.#batch.close();
    this.#deps.onEnd({ error: undefined, ...outcome });
  }
}

const errors: Readonly<Record<InferenceFailure, Refusal>> = {
  rejected: { code: "INVALID_REQUEST", message: "the model rejected this request" },
  notServed: { code: "MODEL_NOT_AVAILABLE", message: "the model is currently not served here" },
  unavailable: { code: "UPSTREAM_FAILED", message: "the model cannot be reached" },
  broken: { code: "UPSTREAM_FAILED", message: "the answer broke off" },
  timedOut: { code: "TIMEOUT", message: "the model did not answer in time" },
};

export function refused(error: Refusal): AnswerOutcome {
  return { finishReason: "error", finish: "error", result: undefined, error };
}

export function cancelled(result?: InferenceResult): AnswerOutcome {
  return { finishReason: "cancel", finish: "cancel", result, error: undefined };
}

/**
 * `maxOutputTokens`: the maximum that the client agreed to. A higher number from the model is lowered to it, and no
 * part is reported as larger than its whole.
 */
export function tokensOf(
  result: InferenceResult | undefined,
  maxOutputTokens: number,
): ReportTokens {
  if (result === undefined) return { prompt: 0, completion: 0, cached: 0, reasoning: 0 };
  const { promptTokens, completionTokens, cachedTokens, reasoningTokens } = result.usage;
  const completion = Math.min(completionTokens, maxOutputTokens);
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
    // A chunk that is not JSON is skipped. The end or failure of the model's answer is reported anyway.
    return undefined;
  }
}
