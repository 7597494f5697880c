/** Reads the messages of a request, keeps the members that the network passes on, and measures what a model reads. */
import type { Passable } from "sluice-gateway/services";
import { isAbsent } from "sluice-gateway/internal/toolkit";
import * as check from "./check.ts";
import type { Json } from "./check.ts";
import type { IgnoredNames } from "./ignored-fields.ts";

interface TextPart {
  readonly type: "text";
  readonly text: string;
}

interface ImagePart {
  readonly type: "image_url";
  readonly image_url: unknown;
}

export type Part = TextPart | ImagePart;

export interface Message extends Json {
  readonly role: string;
  readonly content: string | readonly Part[] | null;
}

export interface PromptSize {
  textBytes: number;
  roleBytes: number;
  images: number;
}

/** Members that are forwarded if the network passes their part of the request. */
const partOfMember: ReadonlyMap<string, Passable | undefined> = new Map([
  ["tool_calls", "tools"],
  ["tool_call_id", "tools"],
  ["reasoning_content", "reasoning"],
  ["reasoning", undefined],
  ["function_call", undefined],
  ["refusal", undefined],
  ["audio", undefined],
]);
const ownMembers: readonly string[] = ["role", "content", "name"];

/** Names that clients often get as ignored, for metrics. */
export const knownMembers: readonly string[] = [
  ...Array.from(partOfMember.keys(), (name) => `messages.${name}`),
  ...["image_url", "input_audio", "video_url", "file", "refusal"].map(
    (type) => `messages.content.${type}`,
  ),
  "other",
];

/** Reads the messages of one request. The methods throw `InvalidRequest`. */
export class MessageReader {
  readonly size: PromptSize = { textBytes: 0, roleBytes: 0, images: 0 };
  readonly #passes: readonly Passable[];
  readonly #ignored: IgnoredNames;

  constructor(passes: readonly Passable[], ignored: IgnoredNames) {
    this.#passes = passes;
    this.#ignored = ignored;
  }

  read(value: unknown): readonly Message[] {
    const messages = check.list(value, "messages");
    if (messages.length === 0) check.fail("messages", "expected a list that is not empty");
    return messages.map((one, index) => this.#message(one, `messages[${index}]`));
  }

  #message(value: unknown, path: string): Message {
    const message = check.object(value, path);
    const { content, name } = message;
    const role = check.name(message["role"], `${path}.role`);
    this.size.roleBytes += Buffer.byteLength(role);
    return {
      role,
      content: this.#content(content, `${path}.content`),
      ...(!isAbsent(name) && { name: this.#text(name, `${path}.name`) }),
      ...this.#members(message, path),
    };
  }

  #members(message: Json, path: string): Json {
    const passed: Record<string, unknown> = {};
    for (const [name, member] of Object.entries(message)) {
      const isEmpty = isAbsent(member) || (Array.isArray(member) && member.length === 0);
      if (isEmpty || ownMembers.includes(name)) continue;
      const part = partOfMember.get(name);
      if (part === undefined || !this.#passes.includes(part)) {
        this.#ignored.addChosen(`messages.${name}`);
      } else if (name === "tool_calls") passed[name] = this.#toolCalls(member, `${path}.${name}`);
      else passed[name] = this.#text(member, `${path}.${name}`);
    }
    return passed;
  }

  #text(value: unknown, path: string): string {
    const text = check.text(value, path);
    this.size.textBytes += Buffer.byteLength(text);
    return text;
  }

  /** Without `images`, only the parts of type `text` of a list are forwarded. */
  #content(value: unknown, path: string): Message["content"] {
    if (isAbsent(value)) return null;
    if (typeof value === "string") return this.#text(value, path);
    const given = Array.isArray(value) ? value : check.fail(path, "expected a string or a list");
    const parts = given.flatMap((one, index) => this.#part(one, `${path}[${index}]`));
    // The model would answer, and the client pay for, an empty message.
    if (given.length > 0 && parts.length === 0) {
      check.fail(path, "expected a text, because only text is forwarded to the model");
    }
    return parts;
  }

  #part(value: unknown, path: string): readonly Part[] {
    const part = check.object(value, path);
    const type = check.text(part["type"], `${path}.type`);
    if (type !== "text" && !(type === "image_url" && this.#passes.includes("images"))) {
      this.#ignored.addChosen(`messages.content.${type}`);
      return [];
    }
    this.#ignored.addOthers(part, ["type", type], "messages.content.");
    if (type === "text") return [{ type, text: this.#text(part["text"], `${path}.text`) }];
    this.size.images++;
    return [{ type, image_url: part["image_url"] }];
  }

  #toolCalls(value: unknown, path: string): readonly object[] {
    return check.list(value, path).map((one, index) => {
      const at = `${path}[${index}]`;
      const call = check.object(one, at);
      const called = check.object(call["function"], `${at}.function`);
      this.#ignored.addOthers(call, ["id", "type", "function"], "messages.tool_calls.");
      this.#ignored.addOthers(called, ["name", "arguments"], "messages.tool_calls.function.");
      const id = this.#text(call["id"], `${at}.id`);
      const name = this.#text(called["name"], `${at}.function.name`);
      const text = this.#text(called["arguments"], `${at}.function.arguments`);
      return { id, type: "function", function: { name, arguments: text } };
    });
  }
}
