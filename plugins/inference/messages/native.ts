import { isAbsent, isObject } from "sluice-gateway/internal/toolkit";
import type { AnswerRenderer, Charged } from "../completions/api.ts";
import { memberText, readChoice } from "../read-json.ts";
import type { NativeApi } from "../completions/native-request.ts";
import { messageHead, stopReason, usageOf, withMember } from "./answer.ts";
import type { Json } from "../completions/check.ts";
import { billingHeader } from "./conversation.ts";
import { MessageEvents } from "./events.ts";
import { known } from "./request.ts";

const keptNames = /^(?:messages|tools|thinking|output_config)\.|^(?:cache_control|citations)$/;
const thoughts: readonly unknown[] = ["thinking", "redacted_thinking"];

export const nativeMessages: NativeApi = {
  name: "messages",
  members: new Set(known),
  // Without `reasoning` in `passes`, the worker gets neither the effort nor earlier reasoning.
  isKept: (name, passes) =>
    keptNames.test(name) &&
    name !== "output_config.effort" &&
    (passes.includes("reasoning") || !/^messages\.content\..*thinking$/.test(name)),
  adapt({ system, messages, ...others }, passes) {
    const members = {
      ...others,
      messages: passes.includes("reasoning") ? messages : withoutThoughts(messages),
    };
    const blocks: readonly unknown[] = Array.isArray(system) ? system : [system];
    const kept = blocks.filter((block) => !isAbsent(block) && !isBilling(block));
    if (kept.length === 0) return members;
    return { ...members, system: Array.isArray(system) ? kept : system };
  },
};

/** A message that consists of reasoning alone is left out. */
function withoutThoughts(messages: unknown): readonly unknown[] {
  return (Array.isArray(messages) ? messages : []).flatMap((message: unknown) => {
    if (!isObject(message) || !Array.isArray(message["content"])) return [message];
    const content = message["content"].filter(
      (block: unknown) => !isObject(block) || !thoughts.includes(block["type"]),
    );
    return content.length === 0 ? [] : [{ ...message, content }];
  });
}

function isBilling(block: unknown): boolean {
  const text = isObject(block) ? block["text"] : block;
  return typeof text === "string" && text.startsWith(billingHeader);
}

export const nativeMessage: NonNullable<AnswerRenderer["native"]> = (
  completion,
  native,
  charged,
) => {
  const { content, stop_reason, stop_sequence = null } = readChoice(native);
  const rest = { stop_reason, stop_sequence, usage: usageOf(charged) };
  const json = memberText(native.toString(), "content") ?? JSON.stringify(content);
  return [Buffer.from(withMember({ ...messageHead(completion), ...rest }, "content", json))];
};

/** Maximum number of blocks. No model writes so many. */
const maxBlocks = 512;

export class NativeMessagesStream extends MessageEvents {
  /** Some servers end all blocks together. */
  readonly #open = new Set<unknown>();
  #blocks = 0;
  /** False if the worker sent something that cannot be an answer. */
  #isValid = true;

  protected override add({ type, ...members }: Json): void {
    // A ping tells the client that a silent worker is at work.
    if (type === "ping") this.event(type, {});
    if (typeof type !== "string" || !type.startsWith("content_block_") || !this.#isValid) return;
    this.#isValid = this.#follow(type, members);
    if (this.#isValid) this.event(type, members);
  }

  /** Without the event of the worker, the gateway has ended the answer at its token limit. */
  protected override finish(charged: Charged, native?: Buffer): unknown {
    if (!this.#isValid) return undefined;
    for (const index of this.#open) this.event("content_block_stop", { index });
    const { delta = { stop_reason: stopReason(charged, false), stop_sequence: null } } =
      native === undefined ? {} : readChoice(native);
    return delta;
  }

  /** Returns false for an event that cannot follow the earlier ones. */
  #follow(type: string, { index, content_block: block, delta }: Json): boolean {
    if (type === "content_block_delta") return this.#open.has(index) && isObject(delta);
    if (type === "content_block_stop") return this.#open.delete(index);
    if (type !== "content_block_start" || !isObject(block)) return false;
    this.#open.add(index);
    return index === this.#blocks++ && this.#blocks <= maxBlocks;
  }
}
