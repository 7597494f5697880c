/**
 * Sorts the deltas of a chat completion into the parts of an answer: reasoning, texts, refusals and calls of tools. One
 * part is open at a time. Pieces of further parts wait until it is closed, because a worker may write several calls at
 * once.
 */
import { isAbsent, isObject, ObjectEnd } from "sluice-gateway/internal/toolkit";
import type { Json } from "./check.ts";

type TextKind = "reasoning" | "text" | "refusal";

export interface Part {
  readonly kind: TextKind | "call";
  /** Empty if the worker has given the call none. */
  id: string;
  /** A call is not opened before it has a name. */
  name: string;
  waiting: string;
  isClosed: boolean;
  /** The end of the arguments. Undefined if the part is not a call. */
  readonly end: ObjectEnd | undefined;
}

/** The methods are called from the sockets of workers and must not throw. */
export interface PartWriter {
  open(part: Part): void;
  /** `logprobs`: those of the choice, which may be anything. */
  write(text: string, logprobs?: unknown): void;
  /** True if a call is closed as soon as its arguments are complete and another part waits. */
  readonly closesCompleteCalls: boolean;
  close(): void;
}

/** Maximum number of parts. No model writes so many; each costs more memory than the tokens in it. */
const maxParts = 512;
/** Maximum length of an id that is kept. Longer ones are too long for every API. */
const maxIdLength = 257;

export class AnswerParts {
  /** True after something that cannot be a call, or too many parts. These are left out. */
  isInvalid = false;
  readonly #writer: PartWriter;
  readonly #hasReasoning: boolean;
  /** The open part, then those that wait. */
  readonly #queue: Part[] = [];
  #isOpen = false;
  #count = 0;
  /**
   * The last call of each index, and of all: some servers give all calls the same index, or none. Undefined before the
   * first call, because most answers have none.
   */
  #calls: Map<number | undefined, Part> | undefined;

  constructor(writer: PartWriter, hasReasoning = true) {
    this.#writer = writer;
    this.#hasReasoning = hasReasoning;
  }

  /** The members of a delta or a message may be anything. */
  add(
    { reasoning_content: reasoning, content, refusal, tool_calls: calls }: Json,
    logprobs?: unknown,
  ): void {
    if (this.#hasReasoning && isText(reasoning)) this.#addText("reasoning", reasoning);
    if (isText(content)) this.#addText("text", content, logprobs);
    if (isText(refusal)) this.#addText("refusal", refusal);
    if (Array.isArray(calls)) for (const call of calls) this.#addCall(call);
  }

  /** A call without a name is left out. */
  end(): void {
    for (const part of this.#queue.splice(0)) {
      if (this.#open(part)) this.#close(part);
      else this.isInvalid = true;
    }
  }

  #addText(kind: TextKind, text: string, logprobs?: unknown): void {
    const last = this.#queue.at(-1);
    const part = last?.kind === kind ? last : this.#push(kind, "", "");
    if (part !== undefined) this.#write(part, text, logprobs);
  }

  /**
   * A name or arguments count as output of the model, so their number is limited. An id alone begins no call. Calls after
   * a malformed one are left out.
   */
  #addCall(delta: unknown): void {
    if (this.isInvalid) return;
    const { index: given, id: givenId, function: called } = isObject(delta) ? delta : {};
    const { name: givenName, arguments: text } = isObject(called) ? called : {};
    if (!isObject(delta) || (typeof text !== "string" && !isAbsent(text))) {
      this.isInvalid = true;
      return;
    }
    const index = typeof given === "number" ? given : undefined;
    const id = isText(givenId) ? givenId.slice(0, maxIdLength) : "";
    const name = isText(givenName) ? givenName : "";
    if (name === "" && !isText(text)) return;
    let call = this.#calls?.get(index);
    if (call === undefined || beginsAnother(call, { index, id, name, text })) {
      call = this.#push("call", id, name);
      if (call === undefined) return;
      this.#calls ??= new Map();
      this.#calls.set(index, call).set(undefined, call);
    }
    if (call.isClosed) {
      // The client has already received the end of this call.
      if (text?.trim()) this.isInvalid = true;
      return;
    }
    call.id ||= id;
    if (call.name === "" && name !== "") {
      call.name = name;
      this.#advance();
    }
    if (isText(text)) this.#write(call, text);
  }

  #push(kind: Part["kind"], id: string, name: string): Part | undefined {
    if (this.#count === maxParts) {
      this.isInvalid = true;
      return undefined;
    }
    this.#count++;
    const end = kind === "call" ? new ObjectEnd() : undefined;
    const part = { kind, id, name, waiting: "", isClosed: false, end };
    this.#queue.push(part);
    this.#advance();
    return part;
  }

  #write(part: Part, text: string, logprobs?: unknown): void {
    part.end?.add(text);
    if (this.#isOpen && part === this.#queue[0]) this.#writer.write(text, logprobs);
    else part.waiting += text;
  }

  #advance(): void {
    for (let [part] = this.#queue; part !== undefined && this.#open(part); [part] = this.#queue) {
      if (this.#queue.length === 1) return;
      const isCallOpen =
        part.end !== undefined && !(this.#writer.closesCompleteCalls && part.end.isReached);
      if (isCallOpen) return;
      this.#queue.shift();
      this.#close(part);
    }
  }

  /** Returns false if the part cannot be opened yet. */
  #open(part: Part): boolean {
    if (this.#isOpen) return true;
    if (part.kind === "call" && part.name === "") return false;
    this.#isOpen = true;
    this.#writer.open(part);
    if (part.waiting !== "") this.#writer.write(part.waiting);
    part.waiting = "";
    return true;
  }

  #close(part: Part): void {
    this.#isOpen = false;
    part.isClosed = true;
    this.#writer.close();
  }
}

function isText(value: unknown): value is string {
  return typeof value === "string" && value !== "";
}

/**
 * Returns true if a delta does not continue the last call of its index. Some servers repeat the name in every delta,
 * and some give all calls the index 0 and no id.
 */
function beginsAnother(
  call: Part,
  {
    index,
    id,
    name,
    text,
  }: Pick<Part, "id" | "name"> & { index: unknown; text: string | null | undefined },
): boolean {
  if (name === "" || call.name === "") return false;
  if (id !== "") return call.id !== id;
  return (
    index === undefined ||
    call.name !== name ||
    (call.end?.isReached === true && isText(text?.trim()))
  );
}

/** Returns the id that the worker gives a call, or `own` if it is missing, too long or already in `used`. */
export function callId(given: unknown, maxLength: number, own: string, used: Set<string>): string {
  const isUsable = isText(given) && given.length <= maxLength && !used.has(given);
  const id = isUsable ? given : own;
  used.add(id);
  return id;
}
