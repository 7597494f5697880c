/**
 * Renders the stream of a worker that has the Responses API itself. Its events are passed on with the gateway's numbers,
 * and each response in them is replaced by that of the gateway. The items are kept, because the gateway closes those that
 * are open when the answer reaches its token limit.
 */
import { isObject } from "sluice-gateway/toolkit";
import type { Charged, StreamRenderer } from "../completions/api.ts";
import type { Json } from "../completions/check.ts";
import { readChoice } from "../completions/choice.ts";
import type { CompletionError } from "../completions/errors.ts";
import { EventWriter } from "./event-writer.ts";
import { endStatus, type ResponseState } from "./response-json.ts";

/** An item of the output. */
interface NativeItem {
  item: Json;
  isDone: boolean;
  /** The parts of its content that are done. */
  readonly parts: unknown[];
  /** The text that has arrived since the last part, and its event without `.delta`, such as `response.output_text`. */
  text: string;
  event: string;
  /** The members that say where its events belong. */
  place: Json;
}

const eventName = /^response\.[a-z_.]{1,64}$/;
/** Events with the whole response. The gateway writes its own. */
const states: readonly string[] = ["response.created", "response.in_progress", "response.queued"];
/** Maximum number of items. No model writes so many. */
const maxItems = 512;
/** Maximum size of the events that are kept in bytes. The last event of a worker, which repeats all items, has 1 MiB. */
const maxKeptBytes = 4 * 1024 * 1024;

export class NativeResponseStream implements StreamRenderer {
  readonly encoding = "utf8";
  readonly #json: (state: ResponseState) => string;
  readonly #events = new EventWriter(false);
  readonly #items = new Map<string, NativeItem>();
  #keptBytes = 0;
  /** False if the worker sent more than an answer can have. */
  #isValid = true;

  /** `json`: returns the response in a state. */
  constructor(json: (state: ResponseState) => string) {
    this.#json = json;
  }

  choice(bytes: Buffer, start: number, end: number): string {
    this.#begin();
    const { type, sequence_number: _, ...members } = readChoice(bytes, start, end);
    if (typeof type !== "string" || !eventName.test(type) || states.includes(type)) {
      return this.#events.take();
    }
    this.#keptBytes += this.#keep(type, members) ? end - start : 0;
    this.#isValid &&= this.#keptBytes <= maxKeptBytes && this.#items.size <= maxItems;
    if (this.#isValid) this.#events.write(type, members);
    return this.#events.take();
  }

  end(charged: Charged, native?: Buffer): string {
    this.#begin();
    if (!this.#isValid) this.#finish("failed", charged, this.#done());
    else if (native === undefined) this.#finish(endStatus(charged), charged, this.#closeAll());
    else {
      const { response } = readChoice(native, 0, native.length);
      this.#finish(endStatus(charged), charged, nativeOutput(response));
    }
    return this.#events.take();
  }

  failed({ message }: CompletionError, charged: Charged): string {
    this.#begin();
    this.#finish("failed", charged, this.#done(), message);
    return this.#events.take();
  }

  #begin(): void {
    if (!this.#events.isEmpty) return;
    const json = this.#json({ status: "in_progress" });
    this.#events.writeResponse("response.created", json);
    this.#events.writeResponse("response.in_progress", json);
  }

  #finish(
    status: ResponseState["status"],
    charged: Charged,
    output: readonly unknown[],
    message?: string,
  ): void {
    const state = { status, charged, output, ...(message !== undefined && { message }) };
    this.#events.writeResponse(`response.${status}`, this.#json(state));
  }

  /** Keeps what an event says about an item. Returns false if it is not needed. */
  #keep(type: string, members: Json): boolean {
    const { item, item_id: id, output_index, content_index, delta, part } = members;
    if (isObject(item)) {
      if (typeof item["id"] !== "string") return false;
      const isDone = type === "response.output_item.done";
      const place = { item_id: item["id"], output_index };
      this.#items.set(item["id"], { item, isDone, parts: [], text: "", event: "", place });
      return true;
    }
    const open = typeof id === "string" ? this.#items.get(id) : undefined;
    if (open === undefined || open.isDone) return false;
    if (typeof delta === "string") {
      open.text += delta;
      open.event = type.slice(0, -".delta".length);
      open.place = { item_id: id, output_index, content_index };
    } else if (type === "response.content_part.done") {
      open.parts.push(part);
      open.text = "";
    } else return false;
    return true;
  }

  #done(): unknown[] {
    return Array.from(this.#items.values(), ({ item, isDone }) => (isDone ? [item] : [])).flat();
  }

  #closeAll(): unknown[] {
    return Array.from(this.#items.values(), (one) => (one.isDone ? one.item : this.#close(one)));
  }

  /** Writes the last events of an open item and returns it. */
  #close({ item, parts, text, event, place }: NativeItem): Json {
    const member = textMembers.get(item["type"]);
    let closed: Json = { ...item, status: "incomplete" };
    if (member !== undefined) {
      this.#events.write(`${event}.done`, { ...place, [member]: text });
      closed = { ...closed, [member]: text };
    } else if (event === "response.output_text" || event === "response.reasoning_text") {
      const isOutput = event === "response.output_text";
      const part = {
        type: event.slice("response.".length),
        text,
        ...(isOutput && { annotations: [] }),
      };
      if (text !== "") {
        this.#events.write(`${event}.done`, { ...place, text });
        this.#events.write("response.content_part.done", { ...place, part });
      }
      closed = { ...closed, content: text === "" ? parts : [...parts, part] };
    }
    const { output_index } = place;
    this.#events.write("response.output_item.done", { output_index, item: closed });
    return closed;
  }
}

/** The members with the text of the items that have no parts. */
const textMembers: ReadonlyMap<unknown, string> = new Map([
  ["function_call", "arguments"],
  ["custom_tool_call", "input"],
]);

/** Returns the output of a response that a worker wrote. */
export function nativeOutput(response: unknown): readonly unknown[] {
  const output = isObject(response) ? response["output"] : undefined;
  return Array.isArray(output) ? output : [];
}
