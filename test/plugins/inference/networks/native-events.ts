/** Answers of the Responses API and the Messages API, made from deltas of chat completions without gateway code. */
import assert from "node:assert/strict";
import { chunkOf, eventOf, usageChunkOf } from "./chat-events.ts";
import type { ChatReceived, Script } from "./scripted-worker.ts";
import { raw, usageOf } from "./worker-scripts.ts";

// Deltas and usage of tests may have any shape.
// oxlint-disable-next-line typescript/no-explicit-any
type Any = any;

export interface AnswerEvents {
  /** Returns the events for a delta; before the first one also those that begin an answer. */
  delta(delta: Any): string;
  /** Returns the last events. `usage`: in the form of chat completions. */
  end(finishReason: string, usage: Any): string;
  /** The answer in one piece, after `end`. */
  readonly whole: object;
}

export function eventsFor({ path }: Pick<ChatReceived, "path">): AnswerEvents {
  if (path === "/v1/responses") return new ResponsesEvents();
  if (path === "/v1/messages") return new MessagesEvents();
  assert.equal(path, "/v1/chat/completions");
  return new ChatEvents();
}

export function streamedDeltas(
  list: readonly Any[],
  finishReason = "stop",
  usage: Any = usageOf(5, 2),
): Script {
  return (exchange) => {
    const events = eventsFor(exchange);
    const pieces = [...list.map((delta) => events.delta(delta)), events.end(finishReason, usage)];
    return raw(200, { "content-type": "text/event-stream" }, pieces)(exchange);
  };
}

/** Answers in the API asked for, in one piece or with one delta. `said`: a message of chat completions. */
export function wholeMessage(said: Any, finishReason = "stop", usage: Any = usageOf(5, 2)): Script {
  return (exchange) => {
    if (exchange.body["stream"] === true) {
      const calls = said.tool_calls?.map((call: object, index: number) => ({ index, ...call }));
      const delta = { ...said, ...(calls && { tool_calls: calls }) };
      return streamedDeltas([delta], finishReason, usage)(exchange);
    }
    const events = eventsFor(exchange);
    events.delta(said);
    events.end(finishReason, usage);
    const headers = { "content-type": "application/json" };
    return raw(200, headers, [JSON.stringify(events.whole)])(exchange);
  };
}

export const hello: Script = (exchange) =>
  exchange.body["stream"] === true
    ? streamedDeltas([{ content: "Hello" }, { content: " world" }])(exchange)
    : wholeMessage({ content: "Hello world" })(exchange);

class ChatEvents implements AnswerEvents {
  whole: object = {};
  #said: object = {};

  delta(delta: Any): string {
    this.#said = delta;
    return eventOf(chunkOf(delta));
  }

  end(finishReason: string, usage: Any): string {
    const message = { role: "assistant", content: null, ...this.#said };
    const choices = [{ index: 0, message, finish_reason: finishReason }];
    this.whole = { id: "worker-1", object: "chat.completion", created: 1, choices, usage };
    const last = [chunkOf({}, { finishReason }), usageChunkOf(usage), "[DONE]"];
    return last.map((one) => eventOf(one)).join("");
  }
}

/** Calls `each` for the parts of a delta, with the kind of the block that they belong to. */
function eachPart(delta: Any, each: (kind: "thinking" | "text" | "call", part: Any) => void): void {
  if (delta.reasoning_content) each("thinking", delta.reasoning_content);
  if (delta.content) each("text", delta.content);
  for (const call of delta.tool_calls ?? []) each("call", call);
}

class ResponsesEvents implements AnswerEvents {
  whole: object = {};
  #text = "";
  // A worker's own numbers and ids must not reach the client.
  #sequence = 7;
  readonly #items: Any[] = [];
  #open: Any;
  #key: unknown;

  delta(delta: Any): string {
    if (this.#sequence === 7) {
      for (const type of ["response.created", "response.in_progress"]) {
        this.#write({ type, response: this.#response("in_progress", null) });
      }
    }
    eachPart(delta, (kind, part) => this.#part(kind, part));
    return this.#take();
  }

  end(finishReason: string, usage: Any): string {
    const status = ["length", "content_filter"].includes(finishReason) ? "incomplete" : "completed";
    this.#close();
    const reason = finishReason === "length" ? "max_output_tokens" : finishReason;
    const details = status === "incomplete" ? { reason } : null;
    this.whole = {
      ...this.#response(status, responsesUsage(usage)),
      incomplete_details: details,
      output: this.#items,
    };
    this.#write({ type: `response.${status}`, response: this.whole });
    return this.#take() + eventOf("[DONE]");
  }

  #part(kind: string, part: Any): void {
    const key = kind === "call" ? part.index : kind;
    if (this.#open === undefined || this.#key !== key || part.id) this.#begin(kind, key, part);
    const text = kind === "call" ? (part.function.arguments ?? "") : part;
    this.#open.text += text;
    if (text !== "") this.#at(`${this.#open.event}.delta`, { delta: text });
  }

  #begin(kind: string, key: unknown, part: Any): void {
    this.#close();
    this.#key = key;
    const id = `item_${this.#items.length}`;
    const item =
      kind === "call"
        ? { type: "function_call", call_id: part.id, name: part.function.name, arguments: "" }
        : kind === "text"
          ? { type: "message", role: "assistant", content: [] }
          : { type: "reasoning", summary: [], content: [] };
    const [event, type] = {
      call: ["response.function_call_arguments", ""],
      text: ["response.output_text", "output_text"],
      thinking: ["response.reasoning_text", "reasoning_text"],
    }[kind] as [string, string];
    this.#open = { id, item: { ...item, id, status: "in_progress" }, event, type, text: "" };
    this.#item("added");
    if (type !== "") this.#at("response.content_part.added", { part: { type, text: "" } });
  }

  #close(): void {
    if (this.#open === undefined) return;
    const { event, type, text, item } = this.#open;
    const part = { type, text, ...(type === "output_text" && { annotations: [], logprobs: [] }) };
    const done = type === "" ? { arguments: text } : { content: [part] };
    this.#at(`${event}.done`, type === "" ? { name: item.name, arguments: text } : { text });
    if (type !== "") this.#at("response.content_part.done", { part });
    this.#open.item = { ...item, ...done, status: "completed" };
    this.#item("done");
    this.#items.push(this.#open.item);
    this.#open = undefined;
  }

  #item(end: string): void {
    const { item } = this.#open;
    this.#write({
      type: `response.output_item.${end}`,
      output_index: this.#items.length,
      item,
    });
  }

  #at(type: string, members: object): void {
    const { id, type: part } = this.#open;
    const place = { item_id: id, output_index: this.#items.length };
    this.#write({ type, ...place, ...(part !== "" && { content_index: 0 }), ...members });
  }

  #write(event: object): void {
    const { type } = event as Any;
    this.#text += `event: ${type}\n${eventOf({ ...event, sequence_number: this.#sequence++ })}`;
  }

  #take(): string {
    const text = this.#text;
    this.#text = "";
    return text;
  }

  #response(status: string, usage: unknown): object {
    return {
      id: "resp_of_the_worker",
      object: "response",
      created_at: 1,
      model: "model-of-the-worker",
      status,
      output: [],
      usage,
    };
  }
}

function responsesUsage(usage: Any): unknown {
  if (typeof usage !== "object" || usage === null) return usage;
  return {
    input_tokens: usage.prompt_tokens,
    input_tokens_details: usage.prompt_tokens_details ?? { cached_tokens: 0 },
    output_tokens: usage.completion_tokens,
    output_tokens_details: usage.completion_tokens_details ?? { reasoning_tokens: 0 },
    total_tokens: usage.total_tokens,
  };
}

class MessagesEvents implements AnswerEvents {
  whole: object = {};
  #text = "";
  readonly #content: Any[] = [];
  #open: Any;
  #key: unknown;
  #hasBegun = false;

  delta(delta: Any): string {
    if (!this.#hasBegun) {
      this.#hasBegun = true;
      const usage = { input_tokens: 1, output_tokens: 0 };
      const message = { ...this.#message(null), content: [], usage };
      this.#write("message_start", { message });
      this.#write("ping", {});
    }
    eachPart(delta, (kind, part) => this.#part(kind, part));
    return this.#take();
  }

  end(finishReason: string, usage: Any): string {
    const reasons: Record<string, string> = {
      length: "max_tokens",
      tool_calls: "tool_use",
      content_filter: "refusal",
    };
    this.#close();
    const stop_reason = reasons[finishReason] ?? "end_turn";
    const shown = messagesUsage(usage);
    this.whole = { ...this.#message(stop_reason), content: this.#content, usage: shown };
    this.#write("message_delta", { delta: { stop_reason, stop_sequence: null }, usage: shown });
    this.#write("message_stop", {});
    return this.#take();
  }

  #part(kind: string, part: Any): void {
    const key = kind === "call" ? part.index : kind;
    if (this.#open === undefined || this.#key !== key || part.id) {
      this.#close();
      this.#key = key;
      const input = { type: "tool_use", id: part.id, name: part.function?.name, input: {} };
      this.#open =
        kind === "call"
          ? input
          : kind === "text"
            ? { type: "text", text: "" }
            : { type: "thinking", thinking: "", signature: "" };
      this.#open = { block: this.#open, text: "" };
      this.#at("start", { content_block: this.#open.block });
    }
    const text = kind === "call" ? (part.function.arguments ?? "") : part;
    const [type, member] = {
      call: ["input_json_delta", "partial_json"],
      text: ["text_delta", "text"],
      thinking: ["thinking_delta", "thinking"],
    }[kind] as [string, string];
    this.#open.text += text;
    if (text !== "") this.#at("delta", { delta: { type, [member]: text } });
  }

  #close(): void {
    if (this.#open === undefined) return;
    const { block, text } = this.#open;
    if (block.type === "thinking") {
      this.#at("delta", { delta: { type: "signature_delta", signature: "of the worker" } });
    }
    this.#at("stop", {});
    const said = { text: { text }, thinking: { thinking: text, signature: "of the worker" } };
    const input = block.type === "tool_use" ? { input: parsedInput(text) } : {};
    this.#content.push({ ...block, ...(said as Any)[block.type], ...input });
    this.#open = undefined;
  }

  #at(what: string, members: object): void {
    this.#write(`content_block_${what}`, { index: this.#content.length, ...members });
  }

  #write(type: string, members: object): void {
    this.#text += `event: ${type}\n${eventOf({ type, ...members })}`;
  }

  #take(): string {
    const text = this.#text;
    this.#text = "";
    return text;
  }

  #message(stop_reason: string | null): object {
    return {
      id: "msg_of_the_worker",
      type: "message",
      role: "assistant",
      model: "model-of-the-worker",
      stop_reason,
      stop_sequence: null,
    };
  }
}

function messagesUsage(usage: Any): unknown {
  if (typeof usage !== "object" || usage === null) return usage;
  const cached = usage.prompt_tokens_details?.cached_tokens ?? 0;
  return {
    input_tokens: usage.prompt_tokens - cached,
    cache_creation_input_tokens: 0,
    cache_read_input_tokens: cached,
    output_tokens: usage.completion_tokens,
  };
}

function parsedInput(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return {};
  }
}
