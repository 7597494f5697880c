/**
 * The output of one response: items that open one after the other, from the deltas of a chat completion. It keeps all
 * texts, because the last events repeat them. The token limit of the answer, which the call path enforces, limits their
 * size.
 */
import { AnswerParts, callId, type Part, type PartWriter } from "../completions/answer-parts.ts";
import type { Json } from "../completions/check.ts";
import type { ReasoningSeal } from "../completions/sealed-reasoning.ts";
import { isObject } from "sluice-gateway/internal/toolkit";
import type { EventWriter } from "./event-writer.ts";
import { Item, type ItemStatus, type ItemType } from "./items.ts";

export interface OutputOptions {
  /** Names of the tools whose input is free text. */
  readonly customTools: ReadonlySet<string>;
  /** Seals the reasoning for clients that ask for it. */
  readonly seal: ReasoningSeal | undefined;
}

export interface ResponseOutput {
  /** The items that are done. */
  readonly items: readonly unknown[];
  /** Adds a choice or an event of the worker. `size`: its size in bytes. */
  add(choice: Json, size: number): void;
  /**
   * Closes the open items. `status`: that of an item that the model could not finish. `response`: the response as the
   * worker repeats it at its end. Returns false for an invalid answer.
   */
  end(status: ItemStatus, response?: unknown): boolean;
}

/** The beginnings of the ids of items. */
const prefixes = { message: "msg", reasoning: "rs", function_call: "fc", custom_tool_call: "ctc" };
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
  /** The ids of the calls that were opened. Undefined before the first one. */
  #callIds: Set<string> | undefined;
  /** The status of an item that is closed and not complete by itself. */
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
    const textType = kind === "text" ? "message" : "reasoning";
    const callType = customTools.has(name) ? "custom_tool_call" : "function_call";
    const type: ItemType = kind === "call" ? callType : textType;
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
