/** Renders a streamed chat completion as blocks of the Messages API: numbered without gaps, and only one is open. */
import { isObject } from "sluice-gateway/internal/toolkit";
import { AnswerParts, type Part, type PartWriter } from "../completions/answer-parts.ts";
import type { Charged, Completion } from "../completions/api.ts";
import type { Json } from "../completions/check.ts";
import { maxReasoningBytes } from "../completions/sealed-reasoning.ts";
import { signatureOf, stopReason, toolUseId, type Rendering } from "./answer.ts";
import { MessageEvents } from "./events.ts";

/** The beginning of a delta as JSON, up to the name of the member with the text. */
const deltas = {
  text: '"type":"text_delta","text"',
  refusal: '"type":"text_delta","text"',
  reasoning: '"type":"thinking_delta","thinking"',
  call: '"type":"input_json_delta","partial_json"',
};

export class MessagesStream extends MessageEvents implements PartWriter {
  /** A worker may continue a call until its answer ends. */
  readonly closesCompleteCalls = false;
  readonly #rendering: Rendering;
  readonly #parts: AnswerParts;
  #index = 0;
  #kind: Part["kind"] = "text";
  readonly #callIds = new Set<string>();
  #reasoning = "";
  #isRefused = false;

  constructor(completion: Completion, rendering: Rendering) {
    super(completion);
    this.#rendering = rendering;
    this.#parts = new AnswerParts(this, rendering.thinking !== "none");
  }

  protected override add({ delta }: Json): void {
    if (isObject(delta)) this.#parts.add(delta);
  }

  protected override finish(charged: Charged): object | undefined {
    this.#parts.end();
    if (this.#parts.isInvalid) return undefined;
    const stop_reason = stopReason(charged, this.#callIds.size > 0, this.#isRefused);
    return { stop_reason, stop_sequence: null };
  }

  open({ kind, id, name }: Part): void {
    this.#kind = kind;
    this.#isRefused ||= kind === "refusal";
    const index = this.#index;
    const useId = kind === "call" ? toolUseId(this.completion.id, id, index, this.#callIds) : "";
    const block = {
      text: { type: "text", text: "" },
      refusal: { type: "text", text: "" },
      reasoning: { type: "thinking", thinking: "", signature: "" },
      call: { type: "tool_use", id: useId, name, input: {} },
    };
    this.event("content_block_start", { index, content_block: block[kind] });
  }

  write(text: string): void {
    const isSealed = this.#kind === "reasoning" && this.#rendering.thinking === "sealed";
    if (!isSealed) this.#delta(deltas[this.#kind], text);
    // Longer reasoning is not sealed, so no more than this is kept.
    else if (this.#reasoning.length <= maxReasoningBytes) this.#reasoning += text;
  }

  close(): void {
    if (this.#kind === "reasoning") {
      const signature = signatureOf(this.#reasoning, this.#rendering);
      this.#delta('"type":"signature_delta","signature"', signature);
      this.#reasoning = "";
    }
    this.event("content_block_stop", { index: this.#index++ });
  }

  #delta(members: string, text: string): void {
    const head = `{"type":"content_block_delta","index":${this.#index},"delta":{${members}`;
    this.eventJson("content_block_delta", `${head}:${JSON.stringify(text)}}}`);
  }
}
