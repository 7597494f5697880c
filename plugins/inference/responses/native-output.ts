/**
 * Passes the events of a worker with the Responses API on, with the gateway's numbers. The items are kept, because the
 * gateway closes those that are open when the answer reaches its token limit.
 */
import { isObject } from "sluice-gateway/internal/toolkit";
import type { Json } from "../completions/check.ts";
import type { EventWriter } from "./event-writer.ts";
import { isItemType, Item, type ItemStatus } from "./items.ts";
import type { ResponseOutput } from "./output.ts";

interface NativeItem {
  readonly item: Json;
  readonly index: number;
  readonly isDone: boolean;
  /** The text that has arrived. It is limited by the tokens of the answer. */
  text: string;
}

const eventName = /^response\.[a-z_.]{1,64}$/;
/** Events with the whole response. The gateway writes its own. */
const states: readonly unknown[] = ["response.created", "response.in_progress", "response.queued"];
/** Maximum number of items. No model writes so many. */
const maxItems = 512;
/** Maximum size of the events with items. A worker's last event, which repeats all items, has at most 1 MiB. */
const maxItemBytes = 2 * 1024 * 1024;

export class NativeOutput implements ResponseOutput {
  readonly #events: EventWriter;
  readonly #items = new Map<string, NativeItem>();
  #itemBytes = 0;
  /** The output as the worker repeats it at the end. */
  #complete: readonly unknown[] | undefined;
  /** False if the worker sent more than an answer can have. */
  #isValid = true;

  constructor(events: EventWriter) {
    this.#events = events;
  }

  get items(): readonly unknown[] {
    const items = Array.from(this.#items.values());
    return this.#complete ?? items.flatMap(({ item, isDone }) => (isDone ? [item] : []));
  }

  add({ type, sequence_number: _, ...members }: Json, size: number): void {
    if (typeof type !== "string" || !eventName.test(type) || states.includes(type)) return;
    if (Object.keys(members).length === 0) return;
    const { item, item_id: id, delta } = members;
    if (isObject(item) && typeof item["id"] === "string" && this.#isValid) {
      const { index, text } = this.#items.get(item["id"]) ?? { index: this.#items.size, text: "" };
      const isDone = type === "response.output_item.done";
      this.#items.set(item["id"], { item, index, isDone, text });
      this.#itemBytes += size;
      this.#isValid = this.#items.size <= maxItems && this.#itemBytes <= maxItemBytes;
    }
    const open = typeof id === "string" ? this.#items.get(id) : undefined;
    // The text of an event that ends a part is not counted.
    const isPiece = typeof delta === "string" && !type.endsWith(".done");
    if (open !== undefined && isPiece) open.text += delta;
    if (this.#isValid) this.#events.write(type, members);
  }

  end(_: ItemStatus, response?: unknown): boolean {
    const output = isObject(response) ? response["output"] : undefined;
    if (this.#isValid) {
      this.#complete = Array.isArray(output) ? output : undefined;
      // The gateway has ended the answer.
      this.#complete ??= Array.from(this.#items).flatMap(([id, one]) =>
        one.isDone ? [one.item] : this.#close(id, one),
      );
    }
    return this.#isValid;
  }

  #close(id: string, { item, index, text }: NativeItem): object[] {
    const { type, call_id, name } = item;
    if (!isItemType(type)) return [];
    const isCalled = typeof call_id === "string" && typeof name === "string";
    const call = isCalled ? { call_id, name } : undefined;
    if (type.endsWith("_call") !== isCalled) return [];
    const options = { type, id, index, call, opened: text };
    return [new Item(this.#events, options).close("incomplete")];
  }
}
