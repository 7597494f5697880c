/** Inference: models and their prices, requests, and the answers of workers. */
import type { UpstreamFailure } from "sluice-gateway/plugin";
import type { Pricing, TokenCounts, TokenPrices } from "./pricing.ts";

/** Hardware that attests the machines of a network. `simulated` is for tests. `none`: the network is not attested. */
export type EvidenceKind = "tdx" | "sev-snp" | "simulated" | "none";

/** Lowest, median and highest price coefficient of a model's active workers, in thousandths. */
export interface CoefficientBands {
  readonly base: number;
  readonly standard: number;
  readonly priority: number;
}

/** Prices per token in integer milli-CU. */
export interface ListedPrices {
  readonly promptPriceCUMilli: number;
  readonly completionPriceCUMilli: number;
  readonly cachedPriceCUMilli: number;
  /** Undefined if all tokens have one price. */
  readonly reasoningPriceCUMilli?: number | undefined;
}

/** One model in the catalogue. Prices are at the median coefficient of its active workers. */
export interface ModelEntry extends ListedPrices {
  readonly network: string;
  readonly modelId: string;
  readonly ownedBy: string;
  /** Time at which the network first listed the model in this gateway, in milliseconds since 1970. */
  readonly createdAt: number;
  readonly activeWorkers: number;
  /** Undefined while no worker is active. */
  readonly coefficients: CoefficientBands | undefined;
  readonly evidence: EvidenceKind;
}

/** `pricing`: the price at the time when the worker was chosen. */
export interface ServingWorker {
  readonly network: string;
  readonly id: string;
  readonly pricing: Pricing;
}

/**
 * The reason why an answer, or the rest of it, is missing.
 *
 * - `rejected`: the worker does not accept the request (400, 413, 422).
 * - `notServed`: the worker does not have the model.
 * - `unavailable`: no worker could be reached, or all of them refused.
 * - `broken`: the answer ended before it was complete.
 * - `timedOut`: the answer took too long.
 */
export type InferenceFailure = "rejected" | "notServed" | "unavailable" | "broken" | "timedOut";

/** The context of the model is too short. The numbers are the worker's token counts, undefined if not stated. */
export interface ContextExceeded {
  readonly limit: number | undefined;
  readonly requested: number | undefined;
  /** The tokens of the prompt alone. Known only if the prompt fits, but not together with the tokens of the answer. */
  readonly prompt?: number | undefined;
}

export interface AttemptFailure {
  /** For operators only. */
  readonly cause: UpstreamFailure;
  /** The wait that the worker asks for, from 1 to 300 seconds. */
  readonly retryAfterSeconds?: number | undefined;
  readonly contextExceeded?: ContextExceeded | undefined;
  /** The check of the worker's evidence or bill that failed, and why. Sent to the client; no other worker is tried. */
  readonly failedCheck?: string | undefined;
  /** The worker's server refused the gateway's key, balance or rate. Sent to the client; no other worker is tried. */
  readonly refusal?: "UNAUTHORIZED" | "INSUFFICIENT_BALANCE" | "RATE_LIMITED" | undefined;
  /** True if the request must not be sent to another worker, whatever has failed. */
  readonly isFinal?: boolean | undefined;
}

export interface TokenUsage extends TokenCounts {
  /**
   * True if the worker's report is missing or exceeds the limits of the request, so that the gateway estimated the
   * tokens: for the prompt its UTF-8 bytes / 4, for the completion its UTF-8 bytes / 4 or the number of chunks with
   * content, whichever is higher. Both are rounded up.
   */
  readonly estimated: boolean;
}

export interface InferenceResult {
  readonly worker: ServingWorker;
  readonly usage: TokenUsage;
  /** Σ tokens × price × coefficient / 1000 × rate in milli-CU, rounded half up (decisions.md section 15). */
  readonly costMilliCu: number;
  /**
   * The worker's finish reason, or `length` if the gateway ended the answer at its token limit. Undefined if the answer
   * is incomplete.
   */
  readonly finishReason: string | undefined;
}

export interface ToolCall {
  /** Empty if the worker gives the call none. */
  readonly id: string;
  readonly name: string;
  /** JSON as the model wrote it, which may not be valid. */
  readonly arguments: string;
}

export type WorkerApi = "embeddings" | "responses" | "messages" | "count_tokens";

export interface WholeMessage {
  readonly content: string;
  /** The text in which the model says why it does not answer. Undefined if it answers. */
  readonly refusal?: string | undefined;
  readonly reasoningContent: string | undefined;
  readonly toolCalls: readonly ToolCall[];
  /** The member `logprobs` of the choice. Undefined if it is missing or null. */
  readonly logprobs: Readonly<Record<string, unknown>> | undefined;
}

/**
 * Receives the answer of a worker. Exactly one of `onEnd` and `onError` is called, once, unless the call was aborted. No
 * method is called before an answer has begun, so only the result shows which worker answered. Workers that failed
 * earlier are not reported.
 */
export interface AnswerReader {
  /**
   * Called for each chunk of a streamed answer with its choice: a JSON object `{ index, delta, finish_reason }` on one
   * line, in borrowed bytes. If the request names an API, it is called with the data of each event instead, a JSON
   * object, except those that end the answer.
   */
  onChoice(bytes: Buffer, start: number, end: number): void;
  /** Called after all chunks that arrived together have been passed to `onChoice`. Forward them then. */
  onRead(): void;
  /**
   * `message`: the answer, if it was not streamed. `native`: the answer as the worker wrote it, if the request names an
   * API: for `embeddings`, the JSON of `data`, a list; for `responses` and `messages`, the whole answer, or the data of
   * the event of a stream that has its end (`message_delta` of `messages`). Undefined if the gateway has ended the stream
   * at its token limit.
   */
  onEnd(result: InferenceResult, message: WholeMessage | undefined, native?: Buffer): void;
  /**
   * `result`: the part of the answer that had arrived. Undefined if nothing had arrived, in which case nothing is
   * charged. `attempt`: the failure of the last worker that was tried. Undefined if there was none.
   */
  onError(
    failure: InferenceFailure,
    result: InferenceResult | undefined,
    attempt?: AttemptFailure,
  ): void;
}

/** A request as it is sent to a worker, in OpenAI's chat-completions wire format if it names no other API. */
export interface InferenceRequest {
  /** The API of the worker that gets the request, one that the offer `speaks`. Default: chat completions. */
  readonly api?: WorkerApi | undefined;
  /** Maximum size of an answer in one piece, in bytes. Default: 16 MiB. */
  readonly maxAnswerBytes?: number | undefined;
  /** JSON in UTF-8. A streamed request asks for usage (`stream_options.include_usage`). */
  readonly body: Buffer;
  readonly streamed: boolean;
  /**
   * Number of UTF-8 bytes of everything that the model reads: messages, tools, and calls of tools. The tokens of the
   * prompt are estimated from it.
   */
  readonly promptBytes: number;
  /** Maximum number of tokens of the images in the prompt. Default 0. */
  readonly imageTokens?: number;
  /** Key of the session whose requests should have the same worker. Default: none. */
  readonly session?: string | undefined;
  /** The token limit in `body`. Undefined if the request has no limit. */
  readonly maxTokens?: number | undefined;
  /**
   * Additional headers (those that steps have set, and the trace context), as a flat list of name, value … Headers that
   * the network's configuration sets are not replaced.
   */
  readonly headers?: readonly string[] | undefined;
}

export interface InferenceCall {
  /** Headers about the worker for the client, once the answer has begun: a flat list. Default: none. */
  readonly headers?: readonly string[] | undefined;
  /** Applies backpressure: chunks stop soon after `pause`. */
  pause(): void;
  resume(): void;
  /**
   * Ends the call in the gateway and at the worker. The reader is not called any more. Returns the result for the
   * tokens that the worker has read and produced. Undefined if no worker has received the request.
   */
  abort(): InferenceResult | undefined;
  /**
   * Works like `abort` for a client that has disconnected, but the worker may still report its usage. Resolves when it
   * has, or after 2 s. Never rejects.
   */
  abortWithUsage(): Promise<InferenceResult | undefined>;
}

/**
 * Parts of requests that a network can pass on to its workers in addition to texts (decisions.md section 15).
 *
 * - `tools`: tools, their calls and their results.
 * - `sampling`: temperature, stop sequences, penalties, seed and the like.
 * - `format`: `response_format`.
 * - `logprobs`: log probabilities of tokens.
 * - `images`: content parts of type `image_url`.
 * - `reasoning`: `reasoning_effort`, and `reasoning_content` of earlier answers.
 */
export type Passable = "tools" | "sampling" | "format" | "logprobs" | "images" | "reasoning";

export interface PromptOptions {
  readonly passes: readonly Passable[];
  /** Tokens for which credit is reserved per image. */
  readonly imageTokens: number;
  /** Maximum number of prompt tokens that its models read. Undefined if it is not known. */
  readonly contextTokens: number | undefined;
}

export interface Offer {
  readonly modelId: string;
  readonly network: string;
  readonly activeWorkers: number;
  /** Number of output tokens that are reserved for a request without a token limit. */
  readonly maxOutputTokens: number;
  readonly prompt: PromptOptions;
  /** The APIs of its workers in addition to chat completions. Empty for encrypted networks. */
  readonly speaks: readonly WorkerApi[];
  /** True if the key of a request's session decides about its worker, so it should be computed. */
  readonly usesSessions: boolean;
  /** Returns the maximum cost of this many tokens at any active worker, in milli-CU. */
  maxMilliCu(promptTokens: number, completionTokens: number): number;
  /**
   * Sends a request to the less busy of two workers. If that worker fails before its answer has begun, the request is
   * retried on another. The reader is not called before this method returns.
   */
  send(request: InferenceRequest, reader: AnswerReader): InferenceCall;
}

/** A change to the catalogue of a network: PUT /v1/admin/confidential/{network}/models. */
export interface ModelOverride {
  readonly id: string;
  /** False hides the model. True lists it even while the network does not list it. */
  readonly enabled: boolean;
  readonly ownedBy: string | undefined;
  /** Thousandths that replace the coefficient of each worker. */
  readonly priceCoefficient: number | undefined;
  /** The prices that replace those of the network. */
  readonly prices?: TokenPrices | undefined;
}

export interface CompletionFact {
  /** Listed name of the model. */
  readonly model: string;
  readonly inputTokens: number;
  readonly outputTokens: number;
  /** Milliseconds from the request to the first piece of a streamed answer. Undefined for whole answers. */
  readonly firstTokenMs: number | undefined;
}

declare module "sluice-gateway/plugin" {
  interface Facts {
    completion: CompletionFact;
  }
}
