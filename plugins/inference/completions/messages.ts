/** Reads the messages of a request, keeps the members that the network passes on, and measures what a model reads. */
import type { Passable } from "sluice-gateway/services";
import { isAbsent, isObject } from "sluice-gateway/toolkit";

interface TextPart {
  readonly type: "text";
  readonly text: string;
}

interface ImagePart {
  readonly type: "image_url";
  readonly image_url: unknown;
}

/** A part of the content of a message. */
export type Part = TextPart | ImagePart;

/** A call of a tool in an earlier answer of the model. */
interface ToolCallMember {
  readonly id: string;
  readonly type: "function";
  readonly function: { readonly name: string; readonly arguments: string };
}

/** A message as the worker gets it. */
export interface Message {
  readonly role: string;
  readonly content: string | readonly Part[] | null;
  readonly name?: string;
  readonly tool_calls?: readonly ToolCallMember[];
  readonly tool_call_id?: string;
  readonly reasoning_content?: string;
}

/** The size of a prompt. */
export interface PromptSize {
  /** Number of UTF-8 bytes that the model reads as text. */
  textBytes: number;
  /** Number of UTF-8 bytes of the roles. */
  roleBytes: number;
  images: number;
}

/** Members of messages that are forwarded if the network passes their part of the request. */
const partOfMember: Readonly<Record<string, Passable | undefined>> = {
  tool_calls: "tools",
  tool_call_id: "tools",
  reasoning_content: "reasoning",
  reasoning: undefined,
  function_call: undefined,
  refusal: undefined,
  audio: undefined,
};
/** Types of content parts that are named when they are not forwarded. All others are named `other`. */
const knownParts: ReadonlySet<string> = new Set([
  "image_url",
  "input_audio",
  "video_url",
  "file",
  "refusal",
]);

/** The names that `MessageReader.ignored` can have. */
export const knownMembers: readonly string[] = [
  ...Object.keys(partOfMember).map((name) => `messages.${name}`),
  ...[...knownParts, "other"].map((type) => `messages.content.${type}`),
];

/** Thrown for a message that is not valid. `message`: the path and the reason, for the client. */
export class InvalidMessage extends Error {}

/** Reads the messages of one request. */
export class MessageReader {
  readonly #passes: readonly Passable[];
  /** Names of known members and parts that are not forwarded. */
  readonly ignored = new Set<string>();
  readonly size: PromptSize = { textBytes: 0, roleBytes: 0, images: 0 };

  constructor(passes: readonly Passable[]) {
    this.#passes = passes;
  }

  /** Throws `InvalidMessage`. */
  read(value: unknown): readonly Message[] {
    if (!Array.isArray(value) || value.length === 0) {
      throw new InvalidMessage("messages must be a list that is not empty");
    }
    return value.map((one, index) => this.#message(one, `messages[${index}]`));
  }

  #message(value: unknown, path: string): Message {
    if (!isObject(value)) throw new InvalidMessage(`${path} must be an object`);
    const { role, content, name } = value;
    if (typeof role !== "string" || role === "") {
      throw new InvalidMessage(`${path}.role must be a non-empty string`);
    }
    this.size.roleBytes += Buffer.byteLength(role);
    return {
      role,
      content: this.#content(content, path),
      ...(!isAbsent(name) && { name: this.#text(name, `${path}.name`) }),
      ...this.#members(value, path),
    };
  }

  #members(value: Readonly<Record<string, unknown>>, path: string): Partial<Message> {
    const passed: Record<string, unknown> = {};
    for (const [name, part] of Object.entries(partOfMember)) {
      const member = value[name];
      if (isAbsent(member) || (Array.isArray(member) && member.length === 0)) continue;
      if (part === undefined || !this.#passes.includes(part)) this.ignored.add(`messages.${name}`);
      else if (name === "tool_calls") passed[name] = this.#toolCalls(member, `${path}.tool_calls`);
      else passed[name] = this.#text(member, `${path}.${name}`);
    }
    return passed;
  }

  #text(value: unknown, path: string): string {
    if (typeof value !== "string") throw new InvalidMessage(`${path} must be a string`);
    this.size.textBytes += Buffer.byteLength(value);
    return value;
  }

  /** Without `images`, only the parts of type `text` of a list are forwarded. */
  #content(value: unknown, path: string): Message["content"] {
    if (isAbsent(value)) return null;
    if (typeof value === "string") return this.#text(value, path);
    const wrong = new InvalidMessage(`${path}.content must be a string or a list of parts`);
    if (!Array.isArray(value)) throw wrong;
    const parts: Part[] = [];
    for (const part of value as unknown[]) {
      if (!isObject(part) || typeof part["type"] !== "string") throw wrong;
      const { type, text, image_url: image } = part;
      if (type === "text") {
        if (typeof text !== "string") throw wrong;
        parts.push({ type, text: this.#text(text, path) });
      } else if (type === "image_url" && this.#passes.includes("images")) {
        parts.push({ type, image_url: image });
        this.size.images++;
      } else this.ignored.add(`messages.content.${knownParts.has(type) ? type : "other"}`);
    }
    // The model would answer, and the client pay for, an empty message.
    if (value.length > 0 && parts.length === 0) {
      throw new InvalidMessage(
        `${path}.content has no text, and only text is forwarded to the model`,
      );
    }
    return parts;
  }

  #toolCalls(value: unknown, path: string): ToolCallMember[] {
    if (!Array.isArray(value)) throw new InvalidMessage(`${path} must be a list`);
    return value.map((one: unknown, index) => {
      const called = isObject(one) ? one["function"] : undefined;
      if (!isObject(one) || !isObject(called)) {
        throw new InvalidMessage(`${path}[${index}] must be a call of a function`);
      }
      const id = this.#text(one["id"], `${path}[${index}].id`);
      const name = this.#text(called["name"], `${path}[${index}].function.name`);
      const text = this.#text(called["arguments"], `${path}[${index}].function.arguments`);
      return { id, type: "function", function: { name, arguments: text } };
    });
  }
}
