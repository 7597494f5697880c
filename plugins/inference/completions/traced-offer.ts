/**
 * The span of a completion, by OpenTelemetry's conventions for calls of a model
 * (https://github.com/open-telemetry/semantic-conventions-genai, client-inference). One span covers all attempts.
 */
import type { ChildSpan, Clock, SpanAttributes, TraceSpan } from "sluice-gateway/plugin";
import type {
  AnswerReader,
  InferenceCall,
  InferenceRequest,
  InferenceResult,
  Offer,
} from "sluice-gateway/services";
import type { Completion } from "./api.ts";

/** Returns the same offer with a span below `trace` for each request. The worker gets the context of the span. */
export function tracedOffer(
  offer: Offer,
  trace: TraceSpan,
  { id, request: { model, maxTokens } }: Completion,
  clock: Clock,
): Offer {
  const { modelId, network, activeWorkers, maxOutputTokens, prompt, speaks, usesSessions } = offer;
  return {
    modelId,
    network,
    activeWorkers,
    maxOutputTokens,
    prompt,
    speaks,
    usesSessions,
    maxMilliCu: (...tokens) => offer.maxMilliCu(...tokens),
    send(request, reader) {
      const operation = request.api === "embeddings" ? "embeddings" : "chat";
      const span = trace.child(`${operation} ${model}`, "client", {
        "gen_ai.operation.name": operation,
        // Names the wire format.
        "gen_ai.provider.name": request.api === "messages" ? "anthropic" : "openai",
        "gen_ai.request.model": model,
        "gen_ai.request.max_tokens": maxTokens,
        "gen_ai.request.stream": request.streamed ? true : undefined,
        "gen_ai.response.id": id,
      });
      return new TracedCall(span, clock, reader, model).begin(offer, request);
    },
  };
}

/** Passes an answer from a worker to its reader, and ends the span with it. */
class TracedCall implements AnswerReader, InferenceCall {
  readonly #span: ChildSpan;
  readonly #clock: Clock;
  readonly #reader: AnswerReader;
  readonly #model: string;
  /** Monotonic time in milliseconds. */
  readonly #startedAt: number;
  #call: InferenceCall | undefined;
  #hasFirstChunk = false;

  constructor(span: ChildSpan, clock: Clock, reader: AnswerReader, model: string) {
    this.#span = span;
    this.#clock = clock;
    this.#reader = reader;
    this.#model = model;
    this.#startedAt = clock.monotonic();
  }

  begin(offer: Offer, request: InferenceRequest): InferenceCall {
    const { headers = [] } = request;
    this.#call = offer.send({ ...request, headers: [...headers, ...this.#span.headers] }, this);
    return this;
  }

  // Callbacks of the call.

  onChoice(bytes: Buffer, start: number, end: number): void {
    if (!this.#hasFirstChunk) {
      this.#hasFirstChunk = true;
      const seconds = (this.#clock.monotonic() - this.#startedAt) / 1000;
      this.#span.set({ "gen_ai.response.time_to_first_chunk": seconds });
    }
    this.#reader.onChoice(bytes, start, end);
  }

  onRead(): void {
    this.#reader.onRead();
  }

  // An error of the span must not prevent the reader from getting the answer.

  onEnd(...ended: Parameters<AnswerReader["onEnd"]>): void {
    try {
      this.#end(ended[0]);
    } finally {
      this.#reader.onEnd(...ended);
    }
  }

  onError(...failed: Parameters<AnswerReader["onError"]>): void {
    const [failure, result] = failed;
    try {
      this.#end(result, failure);
    } finally {
      this.#reader.onError(...failed);
    }
  }

  // Members for the surface.

  get headers(): readonly string[] | undefined {
    return this.#call?.headers;
  }

  pause(): void {
    this.#call?.pause();
  }

  resume(): void {
    this.#call?.resume();
  }

  abort(): InferenceResult | undefined {
    const result = this.#call?.abort();
    this.#end(result, "aborted");
    return result;
  }

  async abortWithUsage(): Promise<InferenceResult | undefined> {
    const result = await this.#call?.abortWithUsage();
    this.#end(result, "aborted");
    return result;
  }

  #end(result: InferenceResult | undefined, error?: string): void {
    if (result !== undefined) this.#span.set(attributesOf(result, this.#model));
    this.#span.end(error);
  }
}

function attributesOf(
  { worker, usage, costMilliCu, finishReason }: InferenceResult,
  model: string,
): SpanAttributes {
  return {
    "gen_ai.response.model": model,
    // The value of the convention for a missing finish reason.
    "gen_ai.response.finish_reasons": [finishReason ?? "error"],
    "gen_ai.usage.input_tokens": usage.promptTokens,
    "gen_ai.usage.output_tokens": usage.completionTokens,
    "gen_ai.usage.cache_read.input_tokens": usage.cachedTokens,
    "gen_ai.usage.reasoning.output_tokens": usage.reasoningTokens,
    "sluice.usage.estimated": usage.estimated ? true : undefined,
    "sluice.network": worker.network,
    "sluice.worker": worker.id,
    "sluice.cu.used_milli": costMilliCu,
  };
}
