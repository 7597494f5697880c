import { isAbsent } from "sluice-gateway/internal/toolkit";
import * as check from "../completions/check.ts";
import type { Json } from "../completions/check.ts";
import {
  callOf,
  Conversation,
  textPart,
  textsOf,
  type Reading,
} from "../completions/conversation.ts";
import type { Part } from "../completions/messages.ts";

/** Members of items that have a meaning here, or that have none for the model. */
const knownMembers: ReadonlyMap<unknown, readonly string[]> = new Map([
  ["message", ["role", "content"]],
  ["reasoning", ["content", "encrypted_content", "summary"]],
  ["function_call", ["call_id", "name", "arguments"]],
  ["custom_tool_call", ["call_id", "name", "input"]],
  ["function_call_output", ["call_id", "output"]],
  ["custom_tool_call_output", ["call_id", "output"]],
]);

const textTypes: readonly unknown[] = "input_text output_text reasoning_text text refusal".split(
  " ",
);
const noItems =
  "the gateway stores no items; send the item itself (some clients need the option `store: false` for that)";

/** Reads the input of one request. The methods throw `InvalidRequest`. */
export class InputReader {
  readonly #reading: Reading;
  readonly #conversation = new Conversation();

  constructor(reading: Reading) {
    this.#reading = reading;
  }

  read(instructions: string | undefined, input: unknown): readonly Json[] {
    if (instructions !== undefined) this.#conversation.addSystem([textPart(instructions)]);
    if (typeof input === "string") this.#conversation.add("user", [textPart(input)]);
    else if (!Array.isArray(input) || input.length === 0) {
      check.fail("input", "expected a text, or a list of items that is not empty");
    } else for (const [index, item] of input.entries()) this.#item(item, `input[${index}]`);
    return this.#conversation.messages;
  }

  #item(value: unknown, path: string): void {
    const item = check.object(value, path);
    const type = item["type"] ?? (item["role"] === undefined ? undefined : "message");
    const known = knownMembers.get(type);
    if (known === undefined || typeof type !== "string") {
      const reason = type === "item_reference" ? noItems : "items of this type are not supported";
      return check.unsupported(`${path}.type`, reason);
    }
    this.#reading.ignored.addOthers(item, ["type", "id", "status", ...known], "input.");
    if (type.endsWith("_output")) return this.#result(item, path);
    if (type === "message") this.#message(item, path);
    else if (type === "reasoning") this.#reasoning(item, path);
    else this.#call(type, item, path);
  }

  #message({ role, content }: Json, path: string): void {
    const at = `${path}.content`;
    if (role === "user") this.#conversation.add(role, this.#parts(content, at, "images"));
    else if (role === "assistant") this.#assistant.parts.push(...this.#parts(content, at, "texts"));
    else if (role === "system" || role === "developer") {
      this.#conversation.addSystem(this.#parts(content, at, "texts"));
    } else check.fail(`${path}.role`, "expected user, assistant, system or developer");
  }

  /** Only the plain or sealed text reaches the model. What another provider has encrypted is dropped. */
  #reasoning({ content, encrypted_content: sealed, summary }: Json, path: string): void {
    const { passes, ignored, seal } = this.#reading;
    const parts = isAbsent(content) ? [] : this.#parts(content, `${path}.content`, "texts");
    if (!passes.includes("reasoning")) return ignored.add("input.reasoning");
    const plain = textsOf(parts).join("");
    const text = plain === "" && typeof sealed === "string" ? seal.open(sealed) : plain;
    if (text === undefined) ignored.add("input.reasoning.encrypted_content");
    if (Array.isArray(summary) && summary.length > 0) ignored.add("input.reasoning.summary");
    if (text === undefined || text === "") return;
    const message = this.#assistant;
    message.thought += message.thought === "" ? text : `\n\n${text}`;
  }

  #call(type: string, item: Json, path: string): void {
    check.needPassed(this.#reading.passes, "tools", `${path}.type`);
    const id = check.name(item["call_id"], `${path}.call_id`);
    const name = check.name(item["name"], `${path}.name`);
    const text =
      type === "function_call"
        ? check.text(item["arguments"], `${path}.arguments`)
        : JSON.stringify({ input: check.text(item["input"], `${path}.input`) });
    const message = this.#conversation.calling ?? this.#assistant;
    message.calls.push(callOf(id, name, text));
  }

  #result({ call_id: id, output }: Json, path: string): void {
    check.needPassed(this.#reading.passes, "tools", `${path}.type`);
    const parts = this.#parts(output, `${path}.output`, "images");
    this.#conversation.addResult(parts, check.name(id, `${path}.call_id`));
  }

  /** All reasoning, texts and calls of a turn belong to one message. */
  get #assistant(): ReturnType<Conversation["add"]> {
    const { last } = this.#conversation;
    return last?.role === "assistant" ? last : this.#conversation.add("assistant");
  }

  #parts(value: unknown, path: string, allowed: "texts" | "images"): Part[] {
    if (typeof value === "string") return [textPart(value)];
    const parts = check.list(value, path).map((one, index) => {
      const at = `${path}[${index}]`;
      const part = check.object(one, at);
      return part["type"] === "input_image" && allowed === "images"
        ? this.#image(part, at)
        : textPart(textIn(part, at));
    });
    const isText = parts.every(({ type }) => type === "text");
    return isText ? [textPart(textsOf(parts).join("\n"))] : parts;
  }

  #image({ image_url: url, detail }: Json, path: string): Part {
    check.needPassed(this.#reading.passes, "images", `${path}.type`);
    if (typeof url !== "string" || url === "") {
      check.unsupported(`${path}.image_url`, "an image needs a URL, because no files are stored");
    }
    const shown = typeof detail === "string" ? { url, detail } : { url };
    return { type: "image_url", image_url: shown };
  }
}

function textIn(part: Json, path: string): string {
  const { type } = part;
  if (!textTypes.includes(type)) {
    check.unsupported(`${path}.type`, "parts of this type are not supported here");
  }
  const member = type === "refusal" ? type : "text";
  return check.text(part[member], `${path}.${member}`);
}
