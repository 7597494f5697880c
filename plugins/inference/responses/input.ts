/** Translates the instructions and the items of a request into messages of chat completions. */
import type { Passable } from "sluice-gateway/services";
import { isAbsent } from "sluice-gateway/toolkit";
import type { IgnoredNames } from "../completions/ignored-fields.ts";
import type { ReasoningSeal } from "../completions/sealed-reasoning.ts";
import * as check from "../completions/check.ts";
import type { Json } from "../completions/check.ts";

interface ImagePart {
  readonly type: "image_url";
  readonly image_url: { readonly url: string; readonly detail?: string };
}

type Part = ImagePart | { readonly type: "text"; readonly text: string };

/** A message of chat completions. */
interface ChatMessage {
  role: "system" | "user" | "assistant" | "tool";
  content: string | Part[] | null;
  reasoning_content?: string;
  tool_calls?: object[];
  tool_call_id?: string;
}

/** Members of the items that have a meaning here, or that have none for the model. */
const knownMembers: ReadonlyMap<unknown, readonly string[]> = new Map([
  ["message", ["role", "content"]],
  ["reasoning", ["content", "encrypted_content", "summary"]],
  ["function_call", ["call_id", "name", "arguments"]],
  ["custom_tool_call", ["call_id", "name", "input"]],
  ["function_call_output", ["call_id", "output"]],
  ["custom_tool_call_output", ["call_id", "output"]],
]);

const textTypes = ["input_text", "output_text", "reasoning_text", "text"];
const betweenTexts = "\n\n";

/** Reads the input of one request. Its methods throw `RequestProblem`. */
export class InputReader {
  readonly messages: ChatMessage[] = [];
  readonly #passes: readonly Passable[];
  readonly #ignored: IgnoredNames;
  readonly #seal: ReasoningSeal;
  /** Images of the results of tools. They follow all results of a turn as a message of the user. */
  #images: ImagePart[] = [];

  constructor(passes: readonly Passable[], ignored: IgnoredNames, seal: ReasoningSeal) {
    this.#passes = passes;
    this.#ignored = ignored;
    this.#seal = seal;
  }

  read(instructions: string | undefined, input: unknown): void {
    if (instructions !== undefined) this.#addSystemText(instructions);
    if (typeof input === "string") this.messages.push({ role: "user", content: input });
    else if (!Array.isArray(input) || input.length === 0) {
      check.fail("input", "expected a text, or a list of items that is not empty");
    } else for (const [index, item] of input.entries()) this.#item(item, `input[${index}]`);
    this.#addImages();
  }

  #item(value: unknown, path: string): void {
    const item = check.object(value, path);
    const type = item["type"] ?? (item["role"] === undefined ? undefined : "message");
    const known = knownMembers.get(type);
    if (known === undefined || typeof type !== "string") return refuseItem(type, path);
    this.#ignored.addOthers(item, ["type", "id", "status", ...known], "input.");
    if (type.endsWith("_output")) return this.#result(item, path);
    this.#addImages();
    if (type === "message") this.#message(item, path);
    else if (type === "reasoning") this.#reasoning(item, path);
    else this.#call(type, item, path);
  }

  #message({ role, content }: Json, path: string): void {
    const at = `${path}.content`;
    if (role === "user") this.messages.push({ role, content: this.#parts(content, at, "images") });
    else if (role === "assistant") {
      const message = this.#assistant();
      message.content = joined(message.content, this.#text(content, at));
    } else if (role === "system" || role === "developer") {
      this.#addSystemText(this.#text(content, at));
    } else check.fail(`${path}.role`, "expected user, assistant, system or developer");
  }

  /**
   * Adds to the system message at the beginning, of which templates accept only one. A later text is added to the message
   * before it: in the first message it would change the beginning of the prompt, which workers have cached.
   */
  #addSystemText(text: string): void {
    const last = this.messages.at(-1);
    if (last === undefined) this.messages.push({ role: "system", content: text });
    else if (last.role === "assistant") this.messages.push({ role: "user", content: text });
    else last.content = joined(last.content, text);
  }

  /** Only the plain or sealed text reaches the model. What another provider has encrypted is dropped. */
  #reasoning({ content, encrypted_content: sealed, summary }: Json, path: string): void {
    const plain = isAbsent(content) ? "" : this.#text(content, `${path}.content`);
    if (!this.#passes.includes("reasoning")) return this.#ignored.add("input.reasoning");
    const text = plain === "" && typeof sealed === "string" ? this.#seal.open(sealed) : plain;
    if (text === undefined) this.#ignored.add("input.reasoning.encrypted_content");
    if (Array.isArray(summary) && summary.length > 0) this.#ignored.add("input.reasoning.summary");
    if (text === undefined || text === "") return;
    const message = this.#assistant();
    const { reasoning_content: earlier } = message;
    message.reasoning_content = earlier === undefined ? text : earlier + betweenTexts + text;
  }

  #call(type: string, item: Json, path: string): void {
    this.#needTools(path);
    const id = check.name(item["call_id"], `${path}.call_id`);
    const name = check.name(item["name"], `${path}.name`);
    const text =
      type === "function_call"
        ? check.text(item["arguments"], `${path}.arguments`)
        : JSON.stringify({ input: check.text(item["input"], `${path}.input`) });
    const message = this.#assistant();
    message.tool_calls ??= [];
    message.tool_calls.push({ id, type: "function", function: { name, arguments: text } });
    if (message.content === "") message.content = null;
  }

  #result({ call_id: id, output }: Json, path: string): void {
    this.#needTools(path);
    const parts = this.#parts(output, `${path}.output`, "images");
    const images = typeof parts === "string" ? [] : parts.filter((part) => part.type !== "text");
    const texts = typeof parts === "string" ? [parts] : parts.flatMap(textOfPart);
    if (images.length > 0) texts.push("The images of this result follow in the next message.");
    this.#images.push(...images);
    const content = texts.join("\n");
    this.messages.push({ role: "tool", content, tool_call_id: check.name(id, `${path}.call_id`) });
  }

  #needTools(path: string): void {
    if (!this.#passes.includes("tools")) check.notPassed(`${path}.type`, "tools");
  }

  #addImages(): void {
    if (this.#images.length > 0) this.messages.push({ role: "user", content: this.#images });
    this.#images = [];
  }

  /** Returns the message of the assistant's turn: all its reasoning, texts and calls belong to one message. */
  #assistant(): ChatMessage {
    const last = this.messages.at(-1);
    if (last?.role === "assistant") return last;
    const message: ChatMessage = { role: "assistant", content: "" };
    this.messages.push(message);
    return message;
  }

  #text(value: unknown, path: string): string {
    const parts = this.#parts(value, path, "texts");
    return typeof parts === "string" ? parts : parts.flatMap(textOfPart).join("\n");
  }

  /** Returns a text if there are no images, because some templates accept nothing else. */
  #parts(value: unknown, path: string, allowed: "texts" | "images"): string | Part[] {
    if (typeof value === "string") return value;
    const parts = check.list(value, path).map((one, index) => {
      const at = `${path}[${index}]`;
      const part = check.object(one, at);
      return part["type"] === "input_image" && allowed === "images"
        ? this.#image(part, at)
        : textPart(part, at);
    });
    const isText = parts.every(({ type }) => type === "text");
    return isText ? parts.flatMap(textOfPart).join("\n") : parts;
  }

  #image({ image_url: url, detail }: Json, path: string): ImagePart {
    if (!this.#passes.includes("images")) check.notPassed(`${path}.type`, "images");
    if (typeof url !== "string" || url === "") {
      check.unsupported(`${path}.image_url`, "an image needs a URL, because no files are stored");
    }
    const shown = typeof detail === "string" ? { url, detail } : { url };
    return { type: "image_url", image_url: shown };
  }
}

function textPart(part: Json, path: string): Part {
  const { type } = part;
  const isKnown = typeof type === "string" && (textTypes.includes(type) || type === "refusal");
  if (!isKnown) check.unsupported(`${path}.type`, "parts of this type are not supported here");
  const member = type === "refusal" ? type : "text";
  return { type: "text", text: check.text(part[member], `${path}.${member}`) };
}

function textOfPart(part: Part): string[] {
  return part.type === "text" ? [part.text] : [];
}

function joined(content: ChatMessage["content"], text: string): string | Part[] {
  if (content === null || content === "") return text;
  if (typeof content === "string") return content + betweenTexts + text;
  content.push({ type: "text", text });
  return content;
}

function refuseItem(type: unknown, path: string): never {
  return check.unsupported(
    `${path}.type`,
    type === "item_reference"
      ? "the gateway stores no items; send the item itself (some clients need the option `store: false` for that)"
      : "items of this type are not supported",
  );
}
