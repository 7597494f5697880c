/** Items of a response: each writes its events while it is open. */
import { isObject, parseJson } from "sluice-gateway/toolkit";
import type { ReasoningSeal } from "../completions/sealed-reasoning.ts";
import type { EventWriter } from "./event-writer.ts";

export type ItemStatus = "in_progress" | "completed" | "incomplete";

/** Per type of item: the beginning of its id, its events, the member with its text, and the type of its part. */
const types = {
  message: ["msg", "response.output_text", "text", "output_text"],
  reasoning: ["rs", "response.reasoning_text", "text", "reasoning_text"],
  function_call: ["fc", "response.function_call_arguments", "arguments", undefined],
  custom_tool_call: ["ctc", "response.custom_tool_call_input", "input", undefined],
} as const;

interface ItemOptions {
  readonly type: keyof typeof types;
  /** The position in the output. */
  readonly index: number;
  /** The id of the response. */
  readonly id: string;
  /** The called tool. */
  readonly call?: { readonly call_id: string; readonly name: string };
  readonly seal?: ReasoningSeal | undefined;
  /** The id and the text of an item that a worker has opened. */
  readonly opened?: { readonly id: string; readonly text: string };
}

export function isItemType(type: unknown): type is ItemOptions["type"] {
  return typeof type === "string" && Object.hasOwn(types, type);
}

export class Item {
  readonly #events: EventWriter;
  readonly #options: ItemOptions;
  readonly #id: string;
  #text = "";
  /** Kept for an answer in one piece only, because they are much larger than the text. */
  #logprobs: readonly unknown[] = [];

  constructor(events: EventWriter, options: ItemOptions) {
    this.#events = events;
    this.#options = options;
    const { opened, type, id, index } = options;
    this.#id = opened?.id ?? `${types[type][0]}_${id}_${index}`;
    this.#text = opened?.text ?? "";
    if (opened !== undefined) return;
    this.#writeItem("added", this.#item("in_progress", []));
    this.#writePart("added");
  }

  get type(): ItemOptions["type"] {
    return this.#options.type;
  }

  get text(): string {
    return this.#text;
  }

  /** `logprobs`: the tokens of the text as chat completions describe them, which is the same here. */
  add(text: string, logprobs: readonly unknown[] = []): void {
    this.#text += text;
    if (this.#events.isSilent) this.#logprobs = logprobs;
    // The input of a custom tool is known at the end only, because the model writes it as JSON.
    if (text === "" || this.type === "custom_tool_call") return;
    this.#write("delta", { delta: text, ...(this.type === "message" && { logprobs }) });
  }

  /** Returns the item. */
  close(status: ItemStatus): object {
    const [, , member] = types[this.type];
    if (this.type === "custom_tool_call") {
      this.#text = customInput(this.#text, status);
      if (this.#text !== "") this.#write("delta", { delta: this.#text });
    }
    const others = this.type === "message" ? { logprobs: [] } : { name: this.#options.call?.name };
    this.#write("done", { ...others, [member]: this.#text });
    this.#writePart("done");
    const item = this.#item(status, [this.#part()]);
    this.#writeItem("done", item);
    return item;
  }

  #part(): object {
    const [, , , type] = types[this.type];
    const part = { type, text: this.#text };
    return type === "output_text" ? { ...part, annotations: [], logprobs: this.#logprobs } : part;
  }

  #item(status: ItemStatus, content: readonly object[]): object {
    const { type, call, seal } = this.#options;
    const item = { type, id: this.#id };
    if (type === "message") return { ...item, status, role: "assistant", content };
    if (call !== undefined) return { ...item, status, ...call, [types[type][2]]: this.#text };
    return { ...item, summary: [], content, encrypted_content: seal?.seal(this.#text) };
  }

  #writeItem(end: "added" | "done", item: object): void {
    const { index } = this.#options;
    this.#events.write(`response.output_item.${end}`, { output_index: index, item });
  }

  #writePart(end: "added" | "done"): void {
    if (this.#options.call !== undefined) return;
    this.#writeAt(`response.content_part.${end}`, { part: this.#part() });
  }

  #write(end: "delta" | "done", members: object): void {
    this.#writeAt(`${types[this.type][1]}.${end}`, members);
  }

  #writeAt(type: string, members: object): void {
    const { index, call } = this.#options;
    const place = { item_id: this.#id, output_index: index };
    this.#events.write(type, {
      ...place,
      ...(call === undefined && { content_index: 0 }),
      ...members,
    });
  }
}

/**
 * Returns the input in the arguments of a call. Some models write the input itself instead of JSON. An unfinished input
 * is empty, because a client could run it.
 */
function customInput(text: string, status: ItemStatus): string {
  const value = parsed(text);
  if (isObject(value) && typeof value["input"] === "string") return value["input"];
  return status === "incomplete" ? "" : text;
}

/** Returns the value of a JSON text; undefined if it is not JSON. */
export function parsed(text: string): unknown {
  try {
    return parseJson(text);
  } catch {
    return undefined;
  }
}
