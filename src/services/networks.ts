/** The service `host.networks`, the inference networks and their workers: implemented in src/inference. */

/** What vouches for the place where a network's models run; `simulated` is for tests, `none` is nobody. */
export type EvidenceKind = "tdx" | "sev-snp" | "simulated" | "none";

/** The lowest, the median and the highest price coefficient (thousandths) of a model's active workers. */
export interface CoefficientBands {
  readonly base: number;
  readonly standard: number;
  readonly priority: number;
}

/** One model as the catalogue shows it: prices per token in integer milli-CU, at the median of its active workers. */
export interface ModelEntry {
  readonly network: string;
  readonly modelId: string;
  readonly ownedBy: string;
  /** Milliseconds since 1970 when the network first listed it here. */
  readonly createdAt: number;
  readonly activeWorkers: number;
  readonly promptPriceCUMilli: number;
  readonly completionPriceCUMilli: number;
  readonly cachedPriceCUMilli: number;
  /** Undefined while no worker is active. */
  readonly coefficients: CoefficientBands | undefined;
  readonly evidence: EvidenceKind;
}

/** What a charge was reckoned with. Decimal strings are exact; `asOf` is when the price was read (RFC 3339). */
export interface Pricing {
  readonly network: string;
  /** Thousandths. */
  readonly coefficient: number;
  readonly pricePerTokenNano: string;
  /** USD of one native token; undefined: not known, and the charge is 0. */
  readonly tokenUsdRate: string | undefined;
  readonly asOf: string;
}

/** The worker that answered, with its price as it was when it was chosen. */
export interface ServingWorker {
  readonly network: string;
  readonly id: string;
  readonly pricing: Pricing;
}

/**
 * Why an answer is missing, or its rest. `rejected`: the worker will not take the request (400, 413, 422). `notServed`:
 * it does not have the model. `unavailable`: none could be reached, or all refused. `broken`: the answer broke off.
 */
export type InferenceFailure = "rejected" | "notServed" | "unavailable" | "broken" | "timedOut";

/** Tokens of one answer, inclusive as OpenAI counts: prompt with cached, completion with reasoning. */
export interface TokenUsage {
  readonly promptTokens: number;
  readonly completionTokens: number;
  readonly cachedTokens: number | undefined;
  readonly reasoningTokens: number | undefined;
  /**
   * The worker's report is missing or above what was asked for, so the tokens were counted here: UTF-8 bytes / 4 of the
   * prompt; of the completion the same or the chunks with content, whichever is more. Rounded up.
   */
  readonly estimated: boolean;
}

/** What an answer came to, whole or broken off. */
export interface InferenceResult {
  readonly worker: ServingWorker;
  readonly usage: TokenUsage;
  /** round half up of tokens × price × coefficient / 1000 × rate (decisions.md section 3), milli-CU. */
  readonly costMilli: number;
  /** As the worker reports it; `length` where it was ended at its cap; undefined where the answer broke off. */
  readonly finishReason: string | undefined;
}

/** The answer in one piece. */
export interface WholeMessage {
  readonly content: string;
  readonly reasoningContent: string | undefined;
}

/**
 * Told what a worker answers. One of `ended` and `failed` is called, once, unless the call was aborted. Which worker it
 * is, and that others failed before it, is seen in the result only: nothing is told before an answer has begun.
 */
export interface AnswerReader {
  /**
   * Streamed: the choice of one chunk, a JSON object `{ index, delta, finish_reason }` on one line, in borrowed bytes.
   */
  choice(bytes: Buffer, start: number, end: number): void;
  /** After all that has arrived at once was told: the moment to pass it on. */
  arrived(): void;
  /** `message`: of an answer that was not streamed. */
  ended(result: InferenceResult, message: WholeMessage | undefined): void;
  /** `result`: of what had come until then; undefined when nothing had, and nothing is owed. */
  failed(failure: InferenceFailure, result: InferenceResult | undefined): void;
}

/** A chat completion as it goes to a worker: OpenAI's chat-completions wire format. */
export interface InferenceRequest {
  /** JSON in UTF-8. A streamed one asks for usage (`stream_options.include_usage`). */
  readonly body: Buffer;
  readonly streamed: boolean;
  /** UTF-8 bytes of the text of all messages: the prompt's tokens are estimated from them. */
  readonly promptBytes: number;
  /** As `body` has it; undefined: none of its own. */
  readonly maxTokens?: number | undefined;
  /** Sent along, flat name, value …: the trace context. */
  readonly headers?: readonly string[] | undefined;
}

/** A request on its way. */
export interface InferenceCall {
  /** Backpressure: chunks stop soon after `pause`. */
  pause(): void;
  resume(): void;
  /**
   * Ends it here and at the worker; the reader is not called any more. What the worker has had and produced until then;
   * undefined if no worker has the request.
   */
  abort(): InferenceResult | undefined;
  /**
   * The client has left. As `abort`, but the worker may still report its usage: the result follows when it has, and
   * after 2 s at the latest. Never rejects.
   */
  leave(): Promise<InferenceResult | undefined>;
}

/** A model and the workers that serve it at this moment. */
export interface Offer {
  readonly modelId: string;
  readonly activeWorkers: number;
  /** What a request without a limit of its own is reserved for, tokens. */
  readonly maxOutputTokens: number;
  /** The most that so many tokens cost at any active worker, milli-CU. */
  mostMilli(tokens: number): number;
  /**
   * Sends a request to the less busy of two workers. One that fails before its answer has begun is replaced by another.
   * Nothing is told before this returns.
   */
  send(request: InferenceRequest, reader: AnswerReader): InferenceCall;
}

/** Changes what a network's catalogue shows: PUT /v1/admin/confidential/{network}/models. */
export interface ModelOverride {
  readonly id: string;
  /** False hides it; true lists it even while the network does not. */
  readonly enabled: boolean;
  readonly ownedBy: string | undefined;
  /** Thousandths, instead of each worker's own. */
  readonly priceCoefficient: number | undefined;
}

/** Who makes a change, for the record of changes. */
export interface ChangedBy {
  /** The id of a key. */
  readonly actor: string;
  readonly requestId: string;
}

export interface Networks {
  /** Configured networks, in the order of pipeline.yaml. */
  readonly names: readonly string[];
  /** What a network lists, or all of them, in a stable order; nothing for a network that is not configured. */
  models(network?: string): readonly ModelEntry[];
  /**
   * Puts these in the place of all that was changed in a network's catalogue; no two have the same id. What the network
   * lists with them; undefined: they could not be written, or there is no such network, and nothing has changed. On
   * disk when it returns, or when the transaction ends that it joins; every gateway on the same store follows within 1
   * s.
   */
  override(
    network: string,
    models: readonly ModelOverride[],
    by: ChangedBy,
  ): readonly ModelEntry[] | undefined;
  /** True while that network, or one of them, has never been heard of: what it lists is not known yet. */
  unread(network?: string): boolean;
  /**
   * What serves a model, in that network or in any: the first in the order of pipeline.yaml with an active worker.
   * Undefined when none lists it.
   */
  find(modelId: string, network?: string): Offer | undefined;
}
