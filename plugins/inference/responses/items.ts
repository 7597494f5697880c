/** Items of a response: each writes its events while it is open. */
import { isObject, parseJson } from "sluice-gateway/toolkit";
import type { ReasoningSeal } from "../completions/sealed-reasoning.ts";
import type { EventWriter } from "./event-writer.ts";

export type ItemStatus = "in_progress" | "completed" | "incomplete";

/** The position of an item in the output, and its id. */
interface Place {
  readonly index: number;
  readonly id: string;
}

/** A message with one text, or reasoning. */
export class TextItem {
  readonly kind: "message" | "reasoning";
  readonly #events: EventWriter;
  readonly #place: Place;
  readonly #seal: ReasoningSeal | undefined;
  #text = "";
  /** Kept for an answer in one piece only, because they are much larger than the text. */
  #logprobs: readonly unknown[] = [];

  constructor(
    kind: TextItem["kind"],
    events: EventWriter,
    place: Place,
    seal: ReasoningSeal | undefined,
  ) {
    this.kind = kind;
    this.#events = events;
    this.#place = place;
    this.#seal = seal;
    const item = this.#item([], "in_progress");
    events.write("response.output_item.added", { output_index: place.index, item });
    this.#write("response.content_part.added", { part: this.#part() });
  }

  /** `logprobs`: the tokens of the text as chat completions describe them, which is the same here. */
  add(text: string, logprobs: readonly unknown[]): void {
    this.#text += text;
    if (this.#events.isSilent) this.#logprobs = logprobs;
    const delta = this.kind === "message" ? { delta: text, logprobs } : { delta: text };
    this.#write(`${this.#eventType}.delta`, delta);
  }

  /** Returns the item. */
  close(status: ItemStatus): object {
    const part = this.#part();
    const text = { text: this.#text };
    this.#write(
      `${this.#eventType}.done`,
      this.kind === "message" ? { ...text, logprobs: [] } : text,
    );
    this.#write("response.content_part.done", { part });
    const item = this.#item([part], status);
    this.#events.write("response.output_item.done", { output_index: this.#place.index, item });
    return item;
  }

  get #eventType(): string {
    return this.kind === "message" ? "response.output_text" : "response.reasoning_text";
  }

  #part(): object {
    return this.kind === "message"
      ? { type: "output_text", text: this.#text, annotations: [], logprobs: this.#logprobs }
      : { type: "reasoning_text", text: this.#text };
  }

  #item(content: readonly object[], status: ItemStatus): object {
    const { id } = this.#place;
    if (this.kind === "message") {
      return { type: "message", id, status, role: "assistant", content };
    }
    const sealed = this.#seal?.seal(this.#text);
    return {
      type: "reasoning",
      id,
      summary: [],
      content,
      ...(sealed !== undefined && { encrypted_content: sealed }),
    };
  }

  #write(type: string, members: object): void {
    const { id, index } = this.#place;
    this.#events.write(type, { item_id: id, output_index: index, content_index: 0, ...members });
  }
}

interface CalledTool {
  /** Id of the call, for its result. */
  readonly id: string;
  readonly name: string;
  /** True for a tool whose input is free text. */
  readonly isCustom: boolean;
}

/** A call of a function or of a custom tool. */
export class CallItem {
  readonly #tool: CalledTool;
  readonly #events: EventWriter;
  readonly #place: Place;

  constructor(tool: CalledTool, events: EventWriter, place: Place) {
    this.#tool = tool;
    this.#events = events;
    this.#place = place;
    const item = this.#item("", "in_progress");
    events.write("response.output_item.added", { output_index: place.index, item });
  }

  get callId(): string {
    return this.#tool.id;
  }

  /** The input of a custom tool is known at the end only, because the model writes it as JSON. */
  add(text: string): void {
    if (text === "" || this.#tool.isCustom) return;
    this.#write("response.function_call_arguments.delta", { delta: text });
  }

  /** `text`: the complete arguments. Returns the item. */
  close(text: string, status: ItemStatus): object {
    const { isCustom, name } = this.#tool;
    if (isCustom) {
      const input = customInput(text, status);
      if (input !== "") this.#write("response.custom_tool_call_input.delta", { delta: input });
      this.#write("response.custom_tool_call_input.done", { input });
      return this.#close(input, status);
    }
    this.#write("response.function_call_arguments.done", { name, arguments: text });
    return this.#close(text, status);
  }

  #close(text: string, status: ItemStatus): object {
    const item = this.#item(text, status);
    this.#events.write("response.output_item.done", { output_index: this.#place.index, item });
    return item;
  }

  #item(text: string, status: ItemStatus): object {
    const { id, name, isCustom } = this.#tool;
    const type = isCustom ? "custom_tool_call" : "function_call";
    const called = isCustom ? { input: text } : { arguments: text };
    return { type, id: this.#place.id, status, call_id: id, name, ...called };
  }

  #write(type: string, members: object): void {
    const { id, index } = this.#place;
    this.#events.write(type, { item_id: id, output_index: index, ...members });
  }
}

/**
 * Returns the input in the arguments of a call. Some models write the input itself instead of JSON. An unfinished input
 * is empty, because a client could run it.
 */
function customInput(text: string, status: ItemStatus): string {
  try {
    const value = parseJson(text);
    if (isObject(value) && typeof value["input"] === "string") return value["input"];
  } catch {
    // The arguments are not JSON.
  }
  return status === "incomplete" ? "" : text;
}
