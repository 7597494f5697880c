/**
 * Translates the system text and the messages of a request to messages of chat completions (agents.md section 6).
 * Everything stays at its place, so that a conversation that grows keeps its beginning: workers have it in their caches.
 */
import { isAbsent, isObject } from "sluice-gateway/internal/toolkit";
import * as check from "../completions/check.ts";
import type { Json } from "../completions/check.ts";
import {
  callOf,
  Conversation,
  textPart,
  type Reading as SharedReading,
} from "../completions/conversation.ts";
import type { Part } from "../completions/messages.ts";

export interface Reading extends SharedReading {
  /** True for the version 2026-10-21 of the API, which refuses more. */
  readonly isStrict: boolean;
}

/** Text that Claude Code puts before everything else. It changes with the first message, and no model needs it. */
export const billingHeader = "x-anthropic-billing-header";
const mediaTypes: readonly unknown[] = ["image/jpeg", "image/png", "image/gif", "image/webp"];

export class MessagesReader {
  readonly #reading: Reading;
  readonly #conversation = new Conversation();
  /** Names that the messages refer to with `tool_reference`. */
  readonly referencedTools = new Set<string>();

  constructor(reading: Reading) {
    this.#reading = reading;
  }

  /** Throws `InvalidRequest`. */
  read(system: unknown, value: unknown): readonly Json[] {
    const messages = check
      .list(value, "messages")
      .map((one, index) => check.object(one, `messages.${index}`));
    if (messages.at(-1)?.["role"] === "assistant") {
      throw check.fail("messages", "models do not continue a last message by the assistant");
    }
    if (!isAbsent(system)) this.#conversation.addSystem(this.#texts(system, "system"));
    messages.forEach((one, index) => this.#message(one, `messages.${index}`));
    const read = this.#conversation.messages;
    if (read.every(({ role }) => role === "system")) {
      throw check.fail("messages", "expected at least one message of the user");
    }
    return read;
  }

  #message({ role, content }: Json, path: string): void {
    const at = `${path}.content`;
    if (role === "user") this.#user(content, at);
    else if (role === "assistant") this.#assistant(content, at);
    else if (role === "system") this.#conversation.addSystem(this.#texts(content, at));
    else throw check.fail(`${path}.role`, "expected user, assistant or system");
  }

  #user(content: unknown, path: string): void {
    for (const [at, block] of this.#blocks(content, path)) {
      if (block["type"] === "tool_result") this.#toolResult(block, at);
      else this.#conversation.addToUser([this.#part(block, at)]);
    }
  }

  #toolResult(block: Json, path: string): void {
    check.needPassed(this.#reading.passes, "tools", "tools");
    const parts = block["is_error"] === true ? [textPart("Error:")] : [];
    for (const [at, each] of this.#blocks(block["content"] ?? [], `${path}.content`)) {
      const isReference = each["type"] === "tool_reference";
      parts.push(isReference ? this.#reference(each, at) : this.#part(each, at));
    }
    const id = check.name(block["tool_use_id"], `${path}.tool_use_id`);
    this.#conversation.addResult(parts, id);
  }

  #reference(block: Json, path: string): Part {
    const name = check.name(block["tool_name"], `${path}.tool_name`);
    this.referencedTools.add(name);
    return textPart(`The tool ${name} is available now.`);
  }

  #assistant(content: unknown, path: string): void {
    let [text, thought] = ["", ""];
    const calls: object[] = [];
    for (const [at, block] of this.#blocks(content, path)) {
      const { type } = block;
      if (type === "thinking") thought += this.#thought(block, at);
      else if (type === "redacted_thinking") this.#reading.ignored.add(`messages.content.${type}`);
      else if (type === "tool_use") calls.push(this.#toolCall(block, at));
      else text += this.#text(block, at);
    }
    if (text === "" && calls.length === 0) return;
    const draft = this.#conversation.add("assistant", text === "" ? [] : [textPart(text)]);
    draft.thought = thought;
    draft.calls.push(...calls);
  }

  /** Returns reasoning that the client shows, or that the gateway has sealed. That of other providers is dropped. */
  #thought({ thinking, signature }: Json, path: string): string {
    const shown = check.text(thinking, `${path}.thinking`);
    if (shown !== "" || typeof signature !== "string") return shown;
    const opened = this.#reading.seal.open(signature);
    if (opened === undefined) this.#reading.ignored.add("messages.content.thinking");
    return opened ?? "";
  }

  #toolCall(block: Json, path: string): object {
    check.needPassed(this.#reading.passes, "tools", "tools");
    const id = check.name(block["id"], `${path}.id`);
    const name = check.name(block["name"], `${path}.name`);
    const input = check.object(block["input"], `${path}.input`);
    return callOf(id, name, JSON.stringify(input));
  }

  #part(block: Json, path: string): Part {
    const { type, citations } = block;
    if (type === "image") return this.#image(block["source"], path);
    if (this.#reading.isStrict && Array.isArray(citations) && citations.length > 0) {
      throw check.fail(`${path}.citations`, "Extra inputs are not permitted");
    }
    return textPart(this.#text(block, path));
  }

  #image(value: unknown, path: string): Part {
    check.needPassed(this.#reading.passes, "images", path);
    const { type, url, data, media_type: mediaType } = check.object(value, `${path}.source`);
    if (type === "url") return imagePart(check.text(url, `${path}.source.url`));
    if (type !== "base64") throw check.unknownType(`${path}.source.type`, type, "base64 or url");
    const at = `${path}.source.media_type`;
    if (!mediaTypes.includes(mediaType)) throw check.fail(at, `expected ${mediaTypes.join(", ")}`);
    const base64 = check.text(data, `${path}.source.data`);
    return imagePart(`data:${String(mediaType)};base64,${base64}`);
  }

  #text({ type, text }: Json, path: string): string {
    if (type !== "text") throw check.unknownType(`${path}.type`, type, "another type of block");
    return check.text(text, `${path}.text`);
  }

  #texts(content: unknown, path: string): Part[] {
    const texts = this.#blocks(content, path).map(([at, block]) => this.#text(block, at));
    const kept = texts.filter((text) => !text.startsWith(billingHeader));
    if (kept.length < texts.length) this.#reading.ignored.add("system.billing_header");
    return kept.map(textPart);
  }

  #blocks(content: unknown, path: string): (readonly [path: string, block: Json])[] {
    if (typeof content === "string") return [[path, { type: "text", text: content }]];
    return check.list(content, path).map((one, index) => {
      const at = `${path}.${index}`;
      const block = check.object(one, at);
      const { citations } = block;
      if (isObject(citations) && citations["enabled"] === true) {
        throw check.fail(`${at}.citations`, "citations are not supported");
      }
      for (const name of ["cache_control", "citations"]) {
        if (!isAbsent(block[name])) this.#reading.ignored.add(name);
      }
      return [at, block];
    });
  }
}

function imagePart(url: string): Part {
  return { type: "image_url", image_url: { url } };
}
