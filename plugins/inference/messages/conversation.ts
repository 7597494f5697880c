/**
 * Translates the system text and the messages of a request to messages of chat completions (agents.md section 6).
 * Everything stays at its place, so that a conversation that grows keeps its beginning: workers have it in their caches.
 */
import { isAbsent, isObject } from "sluice-gateway/toolkit";
import { readImage, type ImagePart } from "./image.ts";
import {
  invalid,
  listAt,
  nameAt,
  noteBlockMembers,
  notPassed,
  objectAt,
  shownWord,
  stringAt,
  type Json,
  type Reading,
} from "./reading.ts";

type Part = { readonly type: "text"; readonly text: string } | ImagePart;

interface ToolCall {
  readonly id: string;
  readonly type: "function";
  readonly function: { readonly name: string; readonly arguments: string };
}

/** A message, whose parts become a string if all of them are texts. */
interface Draft {
  readonly role: string;
  readonly parts: Part[];
  readonly members?: Json;
}

/** Text that Claude Code puts before everything else. It changes with the first message, and no model needs it. */
const billingHeader = "x-anthropic-billing-header";
const separator = "\n\n";

export class Conversation {
  readonly #reading: Reading;
  readonly #drafts: Draft[] = [];
  /** The names of tools that the messages refer to with `tool_reference`. */
  readonly referencedTools = new Set<string>();

  constructor(reading: Reading) {
    this.#reading = reading;
  }

  /** Returns the messages for the worker. Throws `InvalidRequest`. */
  read(system: unknown, value: unknown): readonly Json[] {
    const messages = listAt(value, "messages");
    const instructions = isAbsent(system) ? [] : this.#texts(system, "system");
    if (instructions.length > 0) this.#drafts.push({ role: "system", parts: instructions });
    messages.forEach((one, index) => this.#message(one, `messages.${index}`));
    if (!this.#drafts.some(({ role }) => role !== "system")) {
      throw invalid("messages", "expected at least one message of the user");
    }
    const last = messages.at(-1);
    if (isObject(last) && last["role"] === "assistant") {
      throw invalid(
        "messages",
        "the last message must not be by the assistant, because models do not continue it",
      );
    }
    return this.#drafts.map(({ role, parts, members }) => ({
      role,
      content: parts.length === 0 && role === "assistant" ? null : contentOf(parts),
      ...members,
    }));
  }

  #message(value: unknown, path: string): void {
    const { role, content } = objectAt(value, path);
    const at = `${path}.content`;
    if (role === "system") this.#append(this.#texts(content, at));
    else if (role === "user") this.#user(content, at);
    else if (role === "assistant") this.#assistant(content, at);
    else throw invalid(`${path}.role`, "expected user, assistant or system");
  }

  /** Adds parts to the message before them, except to one by the assistant, which they follow as one by the user. */
  #append(parts: readonly Part[]): void {
    const last = this.#drafts.at(-1);
    if (parts.length === 0) return;
    if (last === undefined) this.#drafts.push({ role: "system", parts: [...parts] });
    else if (last.role === "assistant") this.#drafts.push({ role: "user", parts: [...parts] });
    else last.parts.push(...parts);
  }

  /** All results of tools must follow their calls, so the rest of the message comes after them. */
  #user(content: unknown, path: string): void {
    const images: Part[] = [];
    const parts: Part[] = [];
    for (const [at, block] of blocksOf(content, path)) {
      if (block["type"] === "tool_result") this.#toolResult(block, at, images);
      else parts.push(this.#part(block, at));
    }
    const rest = [...images, ...parts];
    if (rest.length === 0) return;
    if (this.#drafts.at(-1)?.role === "user") this.#append(rest);
    else this.#drafts.push({ role: "user", parts: rest });
  }

  #toolResult(block: Json, path: string, images: Part[]): void {
    this.#needTools();
    const { ignored } = this.#reading;
    noteBlockMembers(block, ignored);
    const { tool_use_id: id, content, is_error: isError } = block;
    const parts: Part[] = isError === true ? [{ type: "text", text: "Error:" }] : [];
    for (const [at, each] of isAbsent(content) ? [] : blocksOf(content, `${path}.content`)) {
      const part =
        each["type"] === "tool_reference" ? this.#reference(each, at) : this.#part(each, at);
      (part.type === "text" ? parts : images).push(part);
    }
    const members = { tool_call_id: nameAt(id, `${path}.tool_use_id`) };
    this.#drafts.push({ role: "tool", parts, members });
  }

  #reference(block: Json, path: string): Part {
    const name = nameAt(block["tool_name"], `${path}.tool_name`);
    this.referencedTools.add(name);
    return { type: "text", text: `The tool ${name} is available now.` };
  }

  #assistant(content: unknown, path: string): void {
    const texts: string[] = [];
    const thoughts: string[] = [];
    const calls: ToolCall[] = [];
    for (const [at, block] of blocksOf(content, path)) {
      const { type } = block;
      if (type === "thinking") thoughts.push(this.#thought(block, at));
      else if (type === "redacted_thinking")
        this.#reading.ignored.add("messages.content.redacted_thinking");
      else if (type === "tool_use") calls.push(this.#toolCall(block, at));
      else texts.push(this.#text(block, at));
    }
    const text = texts.join("");
    const thought = thoughts.join("");
    if (text === "" && calls.length === 0) return;
    this.#drafts.push({
      role: "assistant",
      parts: text === "" ? [] : [{ type: "text", text }],
      members: {
        ...(thought !== "" && { reasoning_content: thought }),
        ...(calls.length > 0 && { tool_calls: calls }),
      },
    });
  }

  /** Returns reasoning that the client shows, or that the gateway has sealed. Other providers' is dropped. */
  #thought({ thinking, signature }: Json, path: string): string {
    const { passes, ignored, openReasoning } = this.#reading;
    const shown = stringAt(thinking, `${path}.thinking`);
    const text =
      shown !== "" ? shown : typeof signature === "string" ? openReasoning(signature) : "";
    if (passes.includes("reasoning") && text !== undefined) return text;
    ignored.add("messages.content.thinking");
    return "";
  }

  #toolCall(block: Json, path: string): ToolCall {
    this.#needTools();
    noteBlockMembers(block, this.#reading.ignored);
    const id = nameAt(block["id"], `${path}.id`);
    const name = nameAt(block["name"], `${path}.name`);
    const input = objectAt(block["input"], `${path}.input`);
    return { id, type: "function", function: { name, arguments: JSON.stringify(input) } };
  }

  #part(block: Json, path: string): Part {
    if (block["type"] === "image") {
      noteBlockMembers(block, this.#reading.ignored);
      if (!this.#reading.passes.includes("images")) throw notPassed(path, "images");
      return readImage(block["source"], `${path}.source`);
    }
    if (
      this.#reading.isStrict &&
      Array.isArray(block["citations"]) &&
      block["citations"].length > 0
    ) {
      throw invalid(`${path}.citations`, "Extra inputs are not permitted");
    }
    return { type: "text", text: this.#text(block, path) };
  }

  #text(block: Json, path: string): string {
    const { type, text } = block;
    if (type !== "text") throw invalid(`${path}.type`, `${shownWord(type)} is not supported here`);
    noteBlockMembers(block, this.#reading.ignored);
    return stringAt(text, `${path}.text`);
  }

  #texts(content: unknown, path: string): Part[] {
    const parts: Part[] = [];
    for (const [at, block] of blocksOf(content, path)) {
      const text = this.#text(block, at);
      if (text.startsWith(billingHeader)) this.#reading.ignored.add("system.billing_header");
      else if (text !== "") parts.push({ type: "text", text });
    }
    return parts;
  }

  #needTools(): void {
    if (!this.#reading.passes.includes("tools")) throw notPassed("tools", "tools");
  }
}

/** Returns the blocks of a content with their paths. A string is one block of text. */
function blocksOf(content: unknown, path: string): (readonly [path: string, block: Json])[] {
  if (typeof content === "string") return [[path, { type: "text", text: content }]];
  if (!Array.isArray(content)) throw invalid(path, "expected a string or a list of blocks");
  return content.map((block: unknown, index) => {
    const at = `${path}.${index}`;
    return [at, objectAt(block, at)];
  });
}

function contentOf(parts: readonly Part[]): string | readonly Part[] {
  const texts = parts.flatMap((part) => (part.type === "text" ? [part.text] : []));
  return texts.length === parts.length ? texts.join(separator) : parts;
}
