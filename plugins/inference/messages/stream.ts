/**
 * Renders a streamed answer as events of the Messages API. Blocks are numbered without gaps and only one is open, so
 * pieces of further blocks wait in a queue while a tool call is open: a worker may continue a call until its answer ends.
 */
import { isObject } from "sluice-gateway/toolkit";
import type { Charged, Completion, StreamRenderer } from "../completions/api.ts";
import { readChoice } from "../completions/choice.ts";
import type { CompletionError } from "../completions/errors.ts";
import { maxReasoningBytes } from "../completions/sealed-reasoning.ts";
import * as answer from "./answer.ts";
import { errorJson } from "./errors.ts";

/** A block that is open or waits. */
interface Block {
  readonly kind: "thinking" | "text" | "tool_use";
  /** Its text that has not been sent. */
  waiting: string;
  /** The id of a tool call, as the worker wrote it. */
  id: string | undefined;
  /** The name of the tool. A call without a name cannot be sent. */
  name: string;
}

export class MessagesStream implements StreamRenderer {
  readonly encoding = "utf8";
  readonly #completion: Completion;
  readonly #rendering: answer.Rendering;
  #hasBegun = false;
  /** The open block, then those that wait. */
  readonly #blocks: Block[] = [];
  /** True if the start of the first block has been sent. */
  #isOpen = false;
  /** The number of the open block, or of the next one. */
  #index = 0;
  /** The calls of tools by the index that the worker gives them. */
  readonly #calls = new Map<unknown, Block>();
  #hasToolCalls = false;
  /** The reasoning of the open block, for its signature. */
  #reasoning = "";

  constructor(completion: Completion, rendering: answer.Rendering) {
    this.#completion = completion;
    this.#rendering = rendering;
  }

  choice(bytes: Buffer, start: number, end: number): string {
    let events = this.begin();
    const { delta } = readChoice(bytes, start, end);
    const {
      reasoning_content: reasoning,
      content,
      tool_calls: calls,
    } = isObject(delta) ? delta : {};
    if (isText(reasoning) && this.#rendering.thinking !== "none") {
      events += this.#add(this.#last("thinking"), reasoning);
    }
    if (isText(content)) events += this.#add(this.#last("text"), content);
    if (Array.isArray(calls)) for (const call of calls) events += this.#addCall(call);
    return events;
  }

  end(charged: Charged): string {
    let events = this.begin();
    while (this.#blocks.length > 0) events += this.#open() + this.#close();
    const stop_reason = answer.stopReason(charged, this.#hasToolCalls);
    const delta = { stop_reason, stop_sequence: null };
    events += eventOf("message_delta", { delta, usage: answer.usageOf(charged) });
    return events + eventOf("message_stop", {});
  }

  /** No `message_stop` follows, so that clients do not treat the answer as complete. */
  failed({ message }: CompletionError): string {
    const error = errorJson("api_error", message, this.#completion.x);
    return `${this.begin()}event: error\ndata: ${error}\n\n`;
  }

  /** The usage is not known until the end. */
  protected begin(): string {
    if (this.#hasBegun) return "";
    this.#hasBegun = true;
    const usage = { input_tokens: 0, output_tokens: 0 };
    const empty = { content: [], stop_reason: null, stop_sequence: null, usage };
    const message = { ...answer.messageHead(this.#completion), ...empty };
    return eventOf("message_start", { message }) + eventOf("ping", {});
  }

  /** Returns the last block if it is of this kind, else a new one. */
  #last(kind: "thinking" | "text"): Block {
    const last = this.#blocks.at(-1);
    return last?.kind === kind ? last : this.#push(kind);
  }

  #push(kind: Block["kind"]): Block {
    const block = { kind, waiting: "", id: undefined, name: "" };
    this.#blocks.push(block);
    return block;
  }

  /** A name or arguments count as output, so their number is limited. Ids do not, so alone they begin no call. */
  #addCall(call: unknown): string {
    const { index, id, function: called } = isObject(call) ? call : {};
    const { name, arguments: text } = isObject(called) ? called : {};
    if (!isText(name) && !isText(text)) return "";
    let block = this.#calls.get(index);
    if (block === undefined || (isText(id) && block.id !== undefined && id !== block.id)) {
      block = this.#push("tool_use");
      this.#calls.set(index, block);
    }
    if (isText(id)) block.id ??= id;
    if (isText(name)) block.name ||= name;
    return this.#add(block, isText(text) ? text : "");
  }

  /** Adds text to a block. A block ends when another one follows it, except a tool call, which may be continued. */
  #add(block: Block, text: string): string {
    block.waiting += text;
    let events = "";
    while (this.#blocks[0] !== block && this.#blocks[0]?.kind !== "tool_use") {
      events += this.#close();
    }
    return this.#blocks[0] === block ? events + this.#open() : events;
  }

  /** Opens the first block if it is not open, and sends its text. */
  #open(): string {
    const [block] = this.#blocks;
    if (block === undefined || (block.kind === "tool_use" && block.name === "")) return "";
    const start = this.#isOpen ? "" : this.#start(block);
    const { waiting } = block;
    block.waiting = "";
    return waiting === "" ? start : start + this.#send(block.kind, waiting);
  }

  #start({ kind, id, name }: Block): string {
    this.#isOpen = true;
    this.#hasToolCalls ||= kind === "tool_use";
    const index = this.#index;
    const members = {
      text: { text: "" },
      thinking: { thinking: "", signature: "" },
      tool_use: { id: answer.toolUseId(this.#completion, id, index), name, input: {} },
    };
    return eventOf("content_block_start", {
      index,
      content_block: { type: kind, ...members[kind] },
    });
  }

  #send(kind: Block["kind"], text: string): string {
    if (kind === "text") return this.#delta({ type: "text_delta", text });
    if (kind === "tool_use") return this.#delta({ type: "input_json_delta", partial_json: text });
    if (this.#rendering.thinking === "shown") {
      return this.#delta({ type: "thinking_delta", thinking: text });
    }
    // Longer reasoning is not sealed, so no more than this is kept.
    if (this.#reasoning.length <= maxReasoningBytes) this.#reasoning += text;
    return "";
  }

  /** Removes the first block, and ends it if it is open. */
  #close(): string {
    const block = this.#blocks.shift();
    if (!this.#isOpen) return "";
    this.#isOpen = false;
    const signature = answer.signatureOf(this.#reasoning, this.#rendering);
    const signed =
      block?.kind === "thinking" ? this.#delta({ type: "signature_delta", signature }) : "";
    this.#reasoning = "";
    return signed + eventOf("content_block_stop", { index: this.#index++ });
  }

  #delta(delta: object): string {
    return eventOf("content_block_delta", { index: this.#index, delta });
  }
}

export function eventOf(type: string, members: object): string {
  return `event: ${type}\ndata: ${JSON.stringify({ type, ...members })}\n\n`;
}

function isText(value: unknown): value is string {
  return typeof value === "string" && value !== "";
}
