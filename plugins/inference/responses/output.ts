/**
 * The output of one response: items that open one after the other, from the deltas of a chat completion. It keeps all
 * texts, because the last events repeat them. Their size is limited by the token limit of the answer, which the call path
 * enforces; everything that does not count as a token is limited here.
 */
import { isAbsent, isObject } from "sluice-gateway/toolkit";
import type { ReasoningSeal } from "../completions/sealed-reasoning.ts";
import type { EventWriter } from "./event-writer.ts";
import { Item, parsed, type ItemStatus } from "./items.ts";

export interface OutputOptions {
  /** Names of the tools whose input is free text. */
  readonly customTools: ReadonlySet<string>;
  /** Seals the reasoning for clients that ask for it. */
  readonly seal: ReasoningSeal | undefined;
}

/** A call of a tool, which may have to wait until the call before it is complete. */
interface Call {
  /** The index that the worker gives it. */
  readonly index: number | undefined;
  id: string;
  name: string;
  /** The text before it is opened. */
  text: string;
  /** Undefined before it is opened. */
  item: Item | undefined;
  isClosed: boolean;
}

/** Maximum number of items. No model writes so many; each costs more memory than the tokens in it. */
const maxItems = 512;
/** Maximum length of the id of a call. Longer ones, and ids that occur twice, are replaced. */
const maxIdLength = 64;

export class Output {
  /** The closed items. */
  readonly items: object[] = [];
  readonly #events: EventWriter;
  readonly #id: string;
  readonly #options: OutputOptions;
  #text: Item | undefined;
  /** The ids of the calls that were opened. */
  readonly #callIds = new Set<string>();
  readonly #calls: Call[] = [];
  /** False if the worker sent something that cannot be an answer. */
  #isValid = true;

  constructor(events: EventWriter, id: string, options: OutputOptions) {
    this.#events = events;
    this.#id = id;
    this.#options = options;
  }

  addText(kind: "message" | "reasoning", text: string, logprobs: readonly unknown[] = []): void {
    if (text === "" || !this.#isValid) return;
    if (this.#text?.type !== kind) {
      this.#closeAll("completed");
      if (!this.#hasRoom()) return;
      const { seal } = this.#options;
      this.#text = new Item(this.#events, { type: kind, ...this.#place(), seal });
    }
    this.#text.add(text, logprobs);
  }

  /** `delta`: one of `tool_calls`, which may be anything. */
  addCall(delta: unknown): void {
    if (!this.#isValid) return;
    const { index, id, name, text } = readDelta(delta);
    if (text === undefined) {
      this.#isValid = false;
      return;
    }
    let call = this.#calls.findLast((each) => index === undefined || each.index === index);
    if (call === undefined || beginsAnother(call, index, id, name)) {
      if (!this.#hasRoom()) return;
      call = { index, id: "", name: "", text: "", item: undefined, isClosed: false };
      this.#calls.push(call);
    }
    // Arguments after the end of a call cannot be added to what the client has already got.
    if (call.isClosed && text.trim() !== "") this.#isValid = false;
    if (call.isClosed) return;
    if (call.id === "") call.id = id;
    if (call.item !== undefined) return call.item.add(text);
    call.text += text;
    // Only here, because a check for every delta would take quadratic time.
    if (call.name === "" && name !== "") {
      call.name = name;
      this.#openCalls();
    }
  }

  /** Closes all items. `status`: that of an item that the model could not finish. Returns false for an invalid answer. */
  close(status: ItemStatus): boolean {
    if (this.#isValid) this.#closeAll(status);
    return this.#isValid && this.#calls.every(({ item }) => item !== undefined);
  }

  /** Opens the calls that wait, as long as the calls before them are complete. */
  #openCalls(): void {
    for (const call of this.#calls) {
      if (call.isClosed) continue;
      if (call.name === "") return;
      this.#closeText("completed");
      call.item ??= this.#open(call);
      if (call === this.#calls.at(-1) || !isComplete(call.item)) return;
      this.#closeCall(call, call.item, "completed");
    }
  }

  #closeAll(status: ItemStatus): void {
    this.#closeText(status);
    for (const call of this.#calls) {
      if (call.isClosed || call.name === "") continue;
      call.item ??= this.#open(call);
      this.#closeCall(call, call.item, isComplete(call.item) ? "completed" : status);
    }
  }

  #closeText(status: ItemStatus): void {
    if (this.#text !== undefined) this.items.push(this.#text.close(status));
    this.#text = undefined;
  }

  #open({ id, name, text }: Call): Item {
    const type = this.#options.customTools.has(name) ? "custom_tool_call" : "function_call";
    const place = this.#place();
    const isOwnId = id === "" || id.length > maxIdLength || this.#callIds.has(id);
    const callId = isOwnId ? `call_${this.#id}_${place.index}` : id;
    this.#callIds.add(callId);
    const item = new Item(this.#events, { type, ...place, call: { call_id: callId, name } });
    item.add(text);
    return item;
  }

  #closeCall(call: Call, item: Item, status: ItemStatus): void {
    this.items.push(item.close(status));
    call.isClosed = true;
  }

  #hasRoom(): boolean {
    if (this.items.length + this.#calls.length < maxItems) return true;
    this.#isValid = false;
    return false;
  }

  #place(): { readonly index: number; readonly id: string } {
    return { index: this.items.length, id: this.#id };
  }
}

/** `text` is undefined if the delta is not a part of a call. */
function readDelta(delta: unknown): {
  readonly index: number | undefined;
  readonly id: string;
  readonly name: string;
  readonly text: string | undefined;
} {
  const { index, id, function: called } = isObject(delta) ? delta : {};
  const { name, arguments: text } = isObject(called) ? called : {};
  const isValid = isObject(delta) && (isAbsent(text) || typeof text === "string");
  return {
    index: typeof index === "number" ? index : undefined,
    id: typeof id === "string" ? id.slice(0, maxIdLength + 1) : "",
    name: typeof name === "string" ? name : "",
    text: isValid ? (text ?? "") : undefined,
  };
}

/** Some servers give all calls the same index, or none. */
function beginsAnother(call: Call, index: number | undefined, id: string, name: string): boolean {
  if (name === "" || call.name === "") return false;
  return id === "" ? index === undefined : call.id !== id;
}

/** Returns true if the text is a JSON object: nothing can follow it. */
function isComplete({ text }: Item): boolean {
  return isObject(parsed(text));
}
