import type { Charged, Completion, StreamRenderer } from "../completions/api.ts";
import type { Json } from "../completions/check.ts";
import { readChoice } from "../read-json.ts";
import { completionError, type CompletionError } from "../completions/errors.ts";
import { messageHead, usageOf } from "./answer.ts";
import { errorJson } from "./errors.ts";

export abstract class MessageEvents implements StreamRenderer {
  readonly encoding = "utf8";
  protected readonly completion: Completion;
  #hasBegun = false;
  #events = "";

  constructor(completion: Completion) {
    this.completion = completion;
  }

  choice(bytes: Buffer, start: number, end: number): string {
    this.#begin();
    this.add(readChoice(bytes, start, end));
    return this.#take();
  }

  end(charged: Charged, native?: Buffer): string {
    this.#begin();
    const delta = this.finish(charged, native);
    if (delta === undefined) return this.failed(completionError("UPSTREAM_ERROR"));
    this.event("message_delta", { delta, usage: usageOf(charged) });
    this.event("message_stop", {});
    return this.#take();
  }

  /** No `message_stop` follows, so that clients do not treat the answer as complete. */
  failed({ message }: CompletionError): string {
    this.#begin();
    this.eventJson("error", errorJson("api_error", message, this.completion.x));
    return this.#take();
  }

  protected abstract add(choice: Json): void;

  /** Returns the delta of the whole message; undefined if it is not valid. */
  protected abstract finish(charged: Charged, native: Buffer | undefined): unknown;

  protected event(type: string, members: object): void {
    this.eventJson(type, JSON.stringify({ type, ...members }));
  }

  protected eventJson(type: string, json: string): void {
    this.#events += `event: ${type}\ndata: ${json}\n\n`;
  }

  /** The usage is not known until the end. */
  #begin(): void {
    if (this.#hasBegun) return;
    this.#hasBegun = true;
    const usage = { input_tokens: 0, output_tokens: 0 };
    const empty = { content: [], stop_reason: null, stop_sequence: null, usage };
    this.event("message_start", { message: { ...messageHead(this.completion), ...empty } });
    this.event("ping", {});
  }

  #take(): string {
    const events = this.#events;
    this.#events = "";
    return events;
  }
}
