/**
 * Renders a streamed answer as events of the Messages API. Blocks are numbered without gaps and only one is open, so
 * pieces of further blocks wait in a queue while a tool call is open: a worker may continue a call until its answer ends.
 */
import { isObject } from "sluice-gateway/toolkit";
import type { Charged, Completion, StreamRenderer } from "../completions/api.ts";
import type { CompletionError } from "../completions/errors.ts";
import { maxReasoningBytes } from "../completions/sealed-reasoning.ts";
import {
  messageHead,
  shownSignature,
  stopReason,
  toolUseId,
  usageOf,
  type Rendering,
} from "./answer.ts";
import { errorJson } from "./errors.ts";

/** A block that is open or waits. */
interface Block {
  readonly kind: "thinking" | "text" | "tool";
  /** Its text that has not been sent. */
  waiting: string;
  /** For a call of a tool. A call without a name cannot be sent. */
  id: unknown;
  name: string;
}

/** The usage is not known until the end. */
const noUsage = {
  input_tokens: 0,
  cache_creation_input_tokens: 0,
  cache_read_input_tokens: 0,
  output_tokens: 0,
};

export class MessagesStream implements StreamRenderer {
  readonly encoding = "utf8";
  readonly #completion: Completion;
  readonly #rendering: Rendering;
  #hasBegun = false;
  /** The open block, then those that wait. */
  readonly #blocks: Block[] = [];
  /** The number of the open block, or of the next one. */
  #index = 0;
  /** True if the start of the first block has been sent. */
  #isOpen = false;
  /** The calls of tools by the index that the worker gives them. */
  readonly #calls = new Map<unknown, Block>();
  #hasToolCalls = false;
  /** Reasoning of the open block, for its signature. */
  #sealed = "";

  constructor(completion: Completion, rendering: Rendering) {
    this.#completion = completion;
    this.#rendering = rendering;
  }

  choice(bytes: Buffer, start: number, end: number): string {
    let events = this.#begin();
    const delta = deltaOf(bytes.toString("utf8", start, end));
    if (delta === undefined) return events;
    const { reasoning_content: reasoning, content, tool_calls: calls } = delta;
    if (isText(reasoning) && this.#rendering.thinking !== "none") {
      events += this.#add(this.#last("thinking"), reasoning);
    }
    if (isText(content)) events += this.#add(this.#last("text"), content);
    if (Array.isArray(calls)) for (const call of calls) events += this.#addCall(call);
    return events;
  }

  end(charged: Charged): string {
    let events = this.#begin();
    while (this.#blocks.length > 0) events += this.#close() + this.#open();
    const stop_reason = stopReason(charged, this.#hasToolCalls);
    const delta = { stop_reason, stop_sequence: null };
    events += eventOf("message_delta", { delta, usage: usageOf(charged) });
    return events + eventOf("message_stop", {});
  }

  /** The event has no usage, and no `message_stop` follows, so that clients do not treat the answer as complete. */
  failed({ message }: CompletionError): string {
    return `${this.#begin()}event: error\ndata: ${errorJson("api_error", message, this.#completion.x)}\n\n`;
  }

  #begin(): string {
    if (this.#hasBegun) return "";
    this.#hasBegun = true;
    const message = {
      ...messageHead(this.#completion),
      content: [],
      stop_reason: null,
      stop_sequence: null,
      usage: noUsage,
    };
    return eventOf("message_start", { message }) + eventOf("ping", {});
  }

  /** Returns the last block if it is of this kind, else a new one after it. */
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
    if (!isObject(call)) return "";
    const { index, id } = call;
    const called = isObject(call["function"]) ? call["function"] : {};
    const name = isText(called["name"]) ? called["name"] : "";
    const text = isText(called["arguments"]) ? called["arguments"] : "";
    if (name === "" && text === "") return "";
    let block = this.#calls.get(index);
    const isOther = isText(id) && block?.id !== undefined && id !== block.id;
    if (block === undefined || isOther) {
      block = this.#push("tool");
      this.#calls.set(index, block);
    }
    if (isText(id)) block.id = toolUseId(this.#completion, id, this.#calls.size);
    if (block.name === "") block.name = name;
    return this.#add(block, text);
  }

  /** Adds text to a block. Sends it if the block is open, and opens the block if nothing stands before it. */
  #add(block: Block, text: string): string {
    block.waiting += text;
    let events = "";
    // Only a tool call may be continued after another block has begun.
    while (this.#blocks[0] !== block && this.#blocks[0]?.kind !== "tool") {
      events += this.#close() + this.#open();
    }
    if (this.#blocks[0] !== block) return events;
    return events + (this.#isOpen ? this.#send(block) : this.#open());
  }

  /** Opens the first block and sends the text that it has. */
  #open(): string {
    const [block] = this.#blocks;
    if (block === undefined || this.#isOpen) return "";
    if (block.kind === "tool" && block.name === "") return "";
    this.#isOpen = true;
    const index = this.#index;
    return (
      eventOf("content_block_start", { index, content_block: this.#start(block) }) +
      this.#send(block)
    );
  }

  #start({ kind, id, name }: Block): object {
    if (kind === "text") return { type: "text", text: "" };
    if (kind === "thinking") return { type: "thinking", thinking: "", signature: "" };
    this.#hasToolCalls = true;
    return { type: "tool_use", id: toolUseId(this.#completion, id, this.#index), name, input: {} };
  }

  #send(block: Block): string {
    const { kind, waiting } = block;
    if (waiting === "") return "";
    block.waiting = "";
    if (kind === "text") return this.#delta({ type: "text_delta", text: waiting });
    if (kind === "tool") return this.#delta({ type: "input_json_delta", partial_json: waiting });
    if (this.#rendering.thinking === "shown") {
      return this.#delta({ type: "thinking_delta", thinking: waiting });
    }
    // Longer reasoning is not sealed, so nothing beyond the limit needs to be kept.
    if (this.#sealed.length <= maxReasoningBytes) this.#sealed += waiting;
    return "";
  }

  /** Removes the first block. Ends it if it is open. */
  #close(): string {
    const block = this.#blocks.shift();
    if (!this.#isOpen) return "";
    this.#isOpen = false;
    const end = block?.kind === "thinking" ? this.#sign() : "";
    return end + eventOf("content_block_stop", { index: this.#index++ });
  }

  #sign(): string {
    const { thinking, seal } = this.#rendering;
    const signature = thinking === "shown" ? shownSignature : seal.seal(this.#sealed);
    this.#sealed = "";
    return signature === undefined ? "" : this.#delta({ type: "signature_delta", signature });
  }

  #delta(delta: object): string {
    return eventOf("content_block_delta", { index: this.#index, delta });
  }
}

function eventOf(type: string, members: object): string {
  return `event: ${type}\ndata: ${JSON.stringify({ type, ...members })}\n\n`;
}

function isText(value: unknown): value is string {
  return typeof value === "string" && value !== "";
}

/** Returns the delta of a choice. Undefined if it has none, or if the worker wrote something else than JSON. */
function deltaOf(text: string): Readonly<Record<string, unknown>> | undefined {
  try {
    const choice: unknown = JSON.parse(text);
    const delta = isObject(choice) ? choice["delta"] : undefined;
    return isObject(delta) ? delta : undefined;
  } catch {
    return undefined;
  }
}
