import { readObject } from "../read-json.ts";
import type { ReasoningSeal } from "../completions/sealed-reasoning.ts";
import type { EventWriter } from "./event-writer.ts";

export type ItemStatus = "in_progress" | "completed" | "incomplete";

/**
 * Per type of item: its events, the member with its text, and the type of its part. A refusal is a message, too, but
 * its part differs.
 */
const types = {
  message: ["response.output_text", "text", "output_text"],
  refusal: ["response.refusal", "refusal", "refusal"],
  reasoning: ["response.reasoning_text", "text", "reasoning_text"],
  function_call: ["response.function_call_arguments", "arguments", undefined],
  custom_tool_call: ["response.custom_tool_call_input", "input", undefined],
} as const;

export type ItemType = keyof typeof types;

interface ItemOptions {
  readonly type: ItemType;
  readonly id: string;
  readonly index: number;
  readonly call?: { readonly call_id: string; readonly name: string } | undefined;
  readonly seal?: ReasoningSeal | undefined;
  /** The text of an item that a worker has opened. */
  readonly opened?: string;
}

export function isItemType(type: unknown): type is ItemType {
  return typeof type === "string" && Object.hasOwn(types, type);
}

export class Item {
  readonly #events: EventWriter;
  readonly #options: ItemOptions;
  readonly #place: string;
  #text: string;
  /** Kept for an answer in one piece only, because they are much larger than the text. */
  #logprobs: readonly unknown[] = [];

  constructor(events: EventWriter, options: ItemOptions) {
    this.#events = events;
    this.#options = options;
    const { opened, id, index, call } = options;
    const content = call === undefined ? '"content_index":0,' : "";
    this.#place = `"item_id":${JSON.stringify(id)},"output_index":${index},${content}`;
    this.#text = opened ?? "";
    if (opened !== undefined) return;
    this.#writeItem("added", this.#item("in_progress", []));
    this.#writePart("added");
  }

  /** `logprobs`: the tokens of the text as chat completions describe them, which is the same here. */
  add(text: string, logprobs?: readonly unknown[]): void {
    const { type } = this.#options;
    this.#text += text;
    if (this.#events.isSilent) this.#logprobs = logprobs ?? [];
    // The input of a custom tool is known at the end only, because the model writes it as JSON.
    if (this.#events.isSilent || type === "custom_tool_call") return;
    const tokens = logprobs === undefined ? "[]" : JSON.stringify(logprobs);
    const others = type === "message" ? `,"logprobs":${tokens}` : "";
    const members = `${this.#place}"delta":${JSON.stringify(text)}${others}`;
    this.#events.writeJson(`${types[type][0]}.delta`, members);
  }

  /** `status`: that of an item that is not complete by itself. */
  close(status: ItemStatus): object {
    const { type, call } = this.#options;
    const [event, member] = types[type];
    // Some models write nothing for a call without arguments, and clients parse them as JSON.
    if (type === "function_call" && this.#text === "" && status === "completed") this.add("{}");
    const isComplete = call !== undefined && readObject(this.#text) !== undefined;
    const own = isComplete ? "completed" : status;
    if (type === "custom_tool_call") {
      this.#text = customInput(this.#text, own);
      if (this.#text !== "") this.#writeAt(`${event}.delta`, { delta: this.#text });
    }
    const others = type === "message" ? { logprobs: [] } : { name: call?.name };
    this.#writeAt(`${event}.done`, { ...others, [member]: this.#text });
    this.#writePart("done");
    const item = this.#item(own, [this.#part()]);
    this.#writeItem("done", item);
    return item;
  }

  #part(): object {
    const [, member, type] = types[this.#options.type];
    const part = { type, [member]: this.#text };
    return type === "output_text" ? { ...part, annotations: [], logprobs: this.#logprobs } : part;
  }

  #item(status: ItemStatus, content: readonly object[]): object {
    const { type, id, call, seal } = this.#options;
    if (type === "message" || type === "refusal") {
      return { type: "message", id, status, role: "assistant", content };
    }
    const item = { type, id };
    if (call !== undefined) return { ...item, status, ...call, [types[type][1]]: this.#text };
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

  #writeAt(type: string, members: object): void {
    if (this.#events.isSilent) return;
    this.#events.writeJson(type, this.#place + JSON.stringify(members).slice(1, -1));
  }
}

/** Some models write the input itself instead of JSON. An unfinished input is empty, because a client could run it. */
function customInput(text: string, status: ItemStatus): string {
  const input = readObject(text)?.["input"];
  if (typeof input === "string") return input;
  return status === "incomplete" ? "" : text;
}
