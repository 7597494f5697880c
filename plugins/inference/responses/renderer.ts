import type { AnswerRenderer, Charged, Completion, StreamRenderer } from "../completions/api.ts";
import { readChoice } from "../read-json.ts";
import { completionError, type CompletionError } from "../completions/errors.ts";
import { EventWriter } from "./event-writer.ts";
import { NativeOutput } from "./native-output.ts";
import { TranslatedOutput, type OutputOptions, type ResponseOutput } from "./output.ts";

export interface RenderOptions extends OutputOptions {
  readonly repeated: string;
}

const incompleteReasons: ReadonlyMap<string | undefined, string> = new Map([
  ["length", "max_output_tokens"],
  ["content_filter", "content_filter"],
]);

export function responseRenderer(options: RenderOptions): AnswerRenderer {
  return {
    whole(completion, message, charged) {
      const { content, refusal, reasoningContent, toolCalls = [], logprobs } = message ?? {};
      const response = new ResponseStream(completion, options, true);
      const calls = toolCalls.map(({ id, name, arguments: text }, index) => {
        return { index, id, function: { name, arguments: text } };
      });
      const said = { reasoning_content: reasoningContent, content, refusal, tool_calls: calls };
      response.output.add({ delta: said, logprobs }, 0);
      return response.last(charged).json;
    },
    native(completion, native, charged) {
      const response = new ResponseStream(completion, options, true);
      return [Buffer.from(response.last(charged, readChoice(native)).json)];
    },
    stream: (completion) => new ResponseStream(completion, options, false),
  };
}

class ResponseStream implements StreamRenderer {
  readonly encoding = "utf8";
  readonly #completion: Completion;
  readonly #options: RenderOptions;
  readonly #events: EventWriter;
  readonly output: ResponseOutput;

  constructor(completion: Completion, options: RenderOptions, isWhole: boolean) {
    this.#completion = completion;
    this.#options = options;
    this.#events = new EventWriter(isWhole);
    const id = completion.id.slice(completion.api.idPrefix.length);
    const isNative = completion.request.api !== undefined;
    this.output = isNative
      ? new NativeOutput(this.#events)
      : new TranslatedOutput(this.#events, id, options);
  }

  choice(bytes: Buffer, start: number, end: number): string {
    this.#begin();
    this.output.add(readChoice(bytes, start, end), end - start);
    return this.#events.take();
  }

  end(charged: Charged, native?: Buffer): string {
    this.#begin();
    const event = native === undefined ? {} : readChoice(native);
    const { type, json } = this.last(charged, event["response"]);
    return this.#write(type, json);
  }

  failed({ message }: CompletionError, charged: Charged): string {
    this.#begin();
    return this.#write("response.failed", this.#json("failed", charged, message));
  }

  /** Returns the complete response and the type of its event. `native`: the response of the worker. */
  last(charged: Charged, native?: unknown): { readonly type: string; readonly json: string } {
    const wanted = incompleteReasons.has(charged.result.finishReason) ? "incomplete" : "completed";
    const status = this.output.end(wanted, native) ? wanted : "failed";
    return { type: `response.${status}`, json: this.#json(status, charged) };
  }

  #write(type: string, json: string): string {
    this.#events.writeJson(type, `"response":${json}`);
    return this.#events.take();
  }

  #begin(): void {
    if (!this.#events.isEmpty) return;
    const json = `"response":${this.#json("in_progress", undefined)}`;
    this.#events.writeJson("response.created", json);
    this.#events.writeJson("response.in_progress", json);
  }

  /** Returns a response with all members that Open Responses requires. */
  #json(
    status: "in_progress" | "completed" | "incomplete" | "failed",
    charged: Charged | undefined,
    message = completionError("UPSTREAM_ERROR").message,
  ): string {
    const { id, created, request, clock } = this.#completion;
    const now = Math.floor(clock.now() / 1000);
    const own = {
      id,
      object: "response",
      created_at: created,
      completed_at: status === "completed" ? Math.max(created, now) : null,
      status,
      background: false,
      error: status === "failed" ? { code: "server_error", message } : null,
      incomplete_details:
        status === "incomplete"
          ? { reason: incompleteReasons.get(charged?.result.finishReason) }
          : null,
      model: request.model,
      output: charged === undefined ? [] : this.output.items,
      previous_response_id: null,
      max_tool_calls: null,
      safety_identifier: null,
      service_tier: "default",
      store: false,
      truncation: "disabled",
      usage: charged === undefined ? null : usageOf(charged),
      user: null,
    };
    return `${JSON.stringify(own).slice(0, -1)},${this.#options.repeated.slice(1)}`;
  }
}

function usageOf({ result, usedMilliCu }: Charged): object {
  const { promptTokens, completionTokens, cachedTokens = 0, reasoningTokens = 0 } = result.usage;
  return {
    input_tokens: promptTokens,
    input_tokens_details: { cached_tokens: cachedTokens },
    output_tokens: completionTokens,
    output_tokens_details: { reasoning_tokens: reasoningTokens },
    total_tokens: promptTokens + completionTokens,
    usedCUMilli: usedMilliCu,
  };
}
