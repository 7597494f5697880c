/**
 * The output of one response: items that open one after the other, from the deltas of a chat completion. It keeps all
 * texts, because the last events repeat them. Their size is limited by the token limit of the answer, which the call path
 * enforces; everything that does not count as a token is limited here.
 */
import { isAbsent, isObject, parseJson } from "sluice-gateway/toolkit";
import type { ReasoningSeal } from "../completions/sealed-reasoning.ts";
import type { EventWriter } from "./event-writer.ts";
import { CallItem, TextItem, type ItemStatus } from "./items.ts";

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
  text: string;
  /** Undefined before it is opened. */
  item: CallItem | undefined;
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
  #text: TextItem | undefined;
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
    if (this.#text?.kind !== kind) {
      this.#closeAll("completed");
      if (!this.#hasRoom()) return;
      const place = this.#place(kind === "message" ? "msg" : "rs");
      this.#text = new TextItem(kind, this.#events, place, this.#options.seal);
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
    call.text += text;
    if (call.id === "") call.id = id;
    if (call.item !== undefined) call.item.add(text);
    // Only here, because a check for every delta would take quadratic time.
    else if (call.name === "" && name !== "") {
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
      if (call.item === undefined) {
        if (call.name === "") return;
        this.#closeText("completed");
        this.#open(call);
      }
      if (call === this.#calls.at(-1) || !isComplete(call.text)) return;
      this.#closeCall(call, "completed");
    }
  }

  #closeAll(status: ItemStatus): void {
    this.#closeText(status);
    for (const call of this.#calls) {
      if (call.isClosed || call.name === "") continue;
      if (call.item === undefined) this.#open(call);
      this.#closeCall(call, isComplete(call.text) ? "completed" : status);
    }
  }

  #closeText(status: ItemStatus): void {
    if (this.#text !== undefined) this.items.push(this.#text.close(status));
    this.#text = undefined;
  }

  #open(call: Call): void {
    const { name, text } = call;
    const isCustom = this.#options.customTools.has(name);
    const place = this.#place(isCustom ? "ctc" : "fc");
    const isOwnId = call.id === "" || call.id.length > maxIdLength || this.#isUsed(call);
    const id = isOwnId ? `call_${this.#id}_${place.index}` : call.id;
    call.item = new CallItem({ id, name, isCustom }, this.#events, place);
    call.item.add(text);
  }

  #isUsed(call: Call): boolean {
    return this.#calls.some((each) => each !== call && each.item?.callId === call.id);
  }

  #closeCall(call: Call, status: ItemStatus): void {
    if (call.item !== undefined) this.items.push(call.item.close(call.text, status));
    call.isClosed = true;
  }

  #hasRoom(): boolean {
    if (this.items.length + this.#calls.length < maxItems) return true;
    this.#isValid = false;
    return false;
  }

  #place(prefix: string): { readonly index: number; readonly id: string } {
    const index = this.items.length;
    return { index, id: `${prefix}_${this.#id}_${index}` };
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

/** Returns true for a JSON object: nothing can follow it. */
function isComplete(text: string): boolean {
  try {
    return isObject(parseJson(text));
  } catch {
    return false;
  }
}
