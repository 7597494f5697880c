/**
 * Collects the messages of a chat request from those of another API. Everything stays in its place, so that a
 * conversation that grows keeps its beginning, which workers have in their caches.
 */
import type { Passable } from "sluice-gateway/services";
import * as check from "./check.ts";
import type { Json } from "./check.ts";
import type { IgnoredNames } from "./ignored-fields.ts";
import type { Part } from "./messages.ts";
import type { ReasoningSeal } from "./sealed-reasoning.ts";

export interface Reading {
  readonly passes: readonly Passable[];
  readonly ignored: IgnoredNames;
  readonly seal: ReasoningSeal;
}

/** A message whose parts become a string if all of them are texts, because some templates accept nothing else. */
interface Draft {
  readonly role: string;
  readonly parts: Part[];
  thought: string;
  readonly calls: object[];
  readonly callId: string | undefined;
}

export class Conversation {
  readonly #drafts: Draft[] = [];
  /** Messages of the user that wait for results of tools, which must follow their calls directly. */
  readonly #waiting: Draft[] = [];

  get last(): Draft | undefined {
    return this.#waiting.at(-1) ?? this.#drafts.at(-1);
  }

  /** The message whose calls have no results yet. More calls belong to it, even after a message of the user. */
  get calling(): Draft | undefined {
    const last = this.#drafts.at(-1);
    return last !== undefined && last.calls.length > 0 ? last : undefined;
  }

  add(role: string, parts: readonly Part[] = [], callId?: string): Draft {
    const draft = { role, parts: [...parts], thought: "", calls: [], callId };
    const before = this.#drafts.at(-1);
    const canResultFollow = before?.role === "tool" || (before?.calls.length ?? 0) > 0;
    if (role === "assistant") this.#addWaiting();
    if (role === "user" && canResultFollow) this.#waiting.push(draft);
    else this.#drafts.push(draft);
    return draft;
  }

  addToUser(parts: readonly Part[]): void {
    const { last } = this;
    if (last?.role === "user") last.parts.push(...parts);
    else if (parts.length > 0) this.add("user", parts);
  }

  /** Images in the result follow all results as a message of the user. */
  addResult(parts: readonly Part[], callId: string): void {
    const images = parts.filter(({ type }) => type !== "text");
    const texts = parts.filter(({ type }) => type === "text");
    if (images.length > 0) {
      texts.push(textPart("The images of this result follow in the next message."));
    }
    this.add("tool", texts, callId);
    this.addToUser(images);
  }

  #addWaiting(): void {
    for (const draft of this.#waiting.splice(0)) this.#drafts.push(draft);
  }

  /**
   * Templates accept one system message, at the beginning. A later text is added to the message before it: in the first
   * message it would change the beginning of the prompt.
   */
  addSystem(parts: readonly Part[]): void {
    const { last } = this;
    if (parts.length === 0) return;
    if (last === undefined) this.add("system", parts);
    else if (last.role === "assistant") this.addToUser(parts);
    else last.parts.push(...parts);
  }

  /** Nothing can be added after the messages were read. */
  get messages(): readonly Json[] {
    this.#addWaiting();
    return this.#drafts.map(({ role, parts, thought, calls, callId }) => ({
      role,
      content: calls.length > 0 && parts.length === 0 ? null : contentOf(parts),
      ...(thought !== "" && { reasoning_content: thought }),
      ...(calls.length > 0 && { tool_calls: calls }),
      ...(callId !== undefined && { tool_call_id: callId }),
    }));
  }
}

export function textPart(text: string): Part {
  return { type: "text", text };
}

export function callOf(id: string, name: string, text: string): object {
  return { id, type: "function", function: { name, arguments: text } };
}

export function toolChoice(
  tools: ReadonlyMap<unknown, unknown>,
  name: unknown,
  path: string,
): Json {
  if (!tools.has(name)) check.fail(path, "expected the name of one of `tools`");
  return { type: "function", function: { name } };
}

export function textsOf(parts: readonly Part[]): string[] {
  return parts.flatMap((part) => (part.type === "text" ? [part.text] : []));
}

function contentOf(parts: readonly Part[]): string | readonly Part[] {
  const texts = textsOf(parts);
  return texts.length === parts.length ? texts.filter((text) => text !== "").join("\n\n") : parts;
}
