/**
 * Makes items, one after the other, from the deltas of a chat completion. It keeps all texts, because the last events
 * repeat them. The token limit of the answer, which the call path enforces, limits their size.
 */
import { AnswerParts, callId, type Part, type PartWriter } from "../completions/answer-parts.ts";
import type { Json } from "../completions/check.ts";
import type { ReasoningSeal } from "../completions/sealed-reasoning.ts";
import { isObject } from "sluice-gateway/internal/toolkit";
import type { EventWriter } from "./event-writer.ts";
import { Item, type ItemStatus, type ItemType } from "./items.ts";

export interface OutputOptions {
  readonly customTools: ReadonlySet<string>;
  /** Undefined unless the client asks for sealed reasoning. */
  readonly seal: ReasoningSeal | undefined;
}

export interface ResponseOutput {
  readonly items: readonly unknown[];
  add(choice: Json, size: number): void;
  /**
   * `status`: that of an item that the model could not finish. `response`: as the worker repeats it at its end. Returns
   * false for an invalid answer.
   */
  end(status: ItemStatus, response?: unknown): boolean;
}

const prefixes: Readonly<Record<ItemType, string>> = {
  message: "msg",
  refusal: "msg",
  reasoning: "rs",
  function_call: "fc",
  custom_tool_call: "ctc",
};
/** Maximum length of the id of a call. Longer ones, and ids that occur twice, are replaced. */
const maxIdLength = 64;

export class TranslatedOutput implements ResponseOutput, PartWriter {
  readonly items: object[] = [];
  readonly closesCompleteCalls = true;
  readonly #parts = new AnswerParts(this);
  readonly #events: EventWriter;
  /** The id of the response without its prefix. */
  readonly #id: string;
  readonly #options: OutputOptions;
  #open: Item | undefined;
  #callIds: Set<string> | undefined;
  #status: ItemStatus = "completed";

  constructor(events: EventWriter, id: string, options: OutputOptions) {
    this.#events = events;
    this.#id = id;
    this.#options = options;
  }

  add({ delta, logprobs }: Json): void {
    if (isObject(delta)) this.#parts.add(delta, logprobs);
  }

  end(status: ItemStatus): boolean {
    this.#status = status;
    if (!this.#parts.isInvalid) this.#parts.end();
    return !this.#parts.isInvalid;
  }

  open({ kind, id, name }: Part): void {
    const { customTools, seal } = this.#options;
    const index = this.items.length;
    const callType = customTools.has(name) ? "custom_tool_call" : "function_call";
    const type: ItemType = kind === "call" ? callType : kind === "text" ? "message" : kind;
    const ownId = `call_${this.#id}_${index}`;
    const call =
      kind === "call"
        ? { call_id: callId(id, maxIdLength, ownId, (this.#callIds ??= new Set())), name }
        : undefined;
    const itemId = `${prefixes[type]}_${this.#id}_${index}`;
    this.#open = new Item(this.#events, { type, id: itemId, index, call, seal });
  }

  write(text: string, logprobs: unknown): void {
    const tokens = isObject(logprobs) ? logprobs["content"] : undefined;
    this.#open?.add(text, Array.isArray(tokens) ? tokens : undefined);
  }

  close(): void {
    if (this.#open !== undefined) this.items.push(this.#open.close(this.#status));
  }
}
