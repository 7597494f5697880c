/** Renders responses: the object of an answer in one piece, and the events of a streamed one. */
import type { WholeMessage } from "sluice-gateway/services";
import { isObject } from "sluice-gateway/toolkit";
import type { AnswerRenderer, Charged, Completion, StreamRenderer } from "../completions/api.ts";
import { readChoice } from "../completions/choice.ts";
import type { CompletionError } from "../completions/errors.ts";
import { EventWriter } from "./event-writer.ts";
import { parsed } from "./items.ts";
import { NativeResponseStream, nativeOutput } from "./native-stream.ts";
import { Output, type OutputOptions } from "./output.ts";
import { endStatus, responseJson, type ResponseState } from "./response-json.ts";

export interface RenderOptions extends OutputOptions {
  /** JSON of the members that repeat the request. */
  readonly repeated: string;
}

export class ResponseRenderer implements AnswerRenderer {
  readonly #options: RenderOptions;

  constructor(options: RenderOptions) {
    this.#options = options;
  }

  whole(completion: Completion, message: WholeMessage | undefined, charged: Charged): string {
    const { content = "", reasoningContent = "", toolCalls = [], logprobs } = message ?? {};
    const response = new ResponseStream(completion, this.#options, true);
    response.add(
      {
        reasoning_content: reasoningContent,
        content,
        tool_calls: toolCalls.map(({ id, name, arguments: text }, index) => {
          return { index, id, function: { name, arguments: text } };
        }),
      },
      logprobs,
    );
    return response.last(charged).json;
  }

  native(completion: Completion, native: Buffer, charged: Charged): readonly Uint8Array[] {
    const output = nativeOutput(readChoice(native, 0, native.length));
    const state = { status: endStatus(charged), output, charged };
    return [Buffer.from(responseJson(completion, this.#options.repeated, state))];
  }

  stream(completion: Completion): StreamRenderer {
    if (completion.request.api === undefined) {
      return new ResponseStream(completion, this.#options, false);
    }
    const json = (state: ResponseState): string =>
      responseJson(completion, this.#options.repeated, state);
    return new NativeResponseStream(json);
  }
}

/** One answer while it is written. */
export class ResponseStream implements StreamRenderer {
  readonly encoding = "utf8";
  readonly #completion: Completion;
  readonly #options: RenderOptions;
  readonly #events: EventWriter;
  readonly #output: Output;

  constructor(completion: Completion, options: RenderOptions, isWhole: boolean) {
    this.#completion = completion;
    this.#options = options;
    this.#events = new EventWriter(isWhole);
    const id = completion.id.slice(completion.api.idPrefix.length);
    this.#output = new Output(this.#events, id, options);
  }

  choice(bytes: Buffer, start: number, end: number): string {
    this.#begin();
    const choice = parsed(bytes.toString("utf8", start, end));
    if (isObject(choice) && isObject(choice["delta"])) {
      this.add(choice["delta"], choice["logprobs"]);
    }
    return this.#events.take();
  }

  /** Adds a part of the answer: a delta or a message of chat completions. */
  add(delta: Readonly<Record<string, unknown>>, logprobs: unknown): void {
    const { reasoning_content: reasoning, content, tool_calls: calls } = delta;
    if (typeof reasoning === "string") this.#output.addText("reasoning", reasoning);
    if (typeof content === "string") {
      const tokens = isObject(logprobs) ? logprobs["content"] : [];
      this.#output.addText("message", content, Array.isArray(tokens) ? tokens : []);
    }
    if (Array.isArray(calls)) for (const call of calls) this.#output.addCall(call);
  }

  end(charged: Charged): string {
    this.#begin();
    const { type, json } = this.last(charged);
    this.#events.writeResponse(type, json);
    return this.#events.take();
  }

  failed({ message }: CompletionError, charged: Charged): string {
    this.#begin();
    const json = this.#json({ status: "failed", output: this.#output.items, charged, message });
    this.#events.writeResponse("response.failed", json);
    return this.#events.take();
  }

  /** Closes all items. Returns the complete response and the type of its event. */
  last(charged: Charged): { readonly type: string; readonly json: string } {
    const wanted = endStatus(charged);
    const status = this.#output.close(wanted) ? wanted : "failed";
    const json = this.#json({ status, output: this.#output.items, charged });
    return { type: `response.${status}`, json };
  }

  /** Writes the first two events, once. */
  #begin(): void {
    if (!this.#events.isEmpty) return;
    const json = this.#json({ status: "in_progress" });
    this.#events.writeResponse("response.created", json);
    this.#events.writeResponse("response.in_progress", json);
  }

  #json(state: ResponseState): string {
    return responseJson(this.#completion, this.#options.repeated, state);
  }
}
