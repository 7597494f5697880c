/**
 * Reads why a worker refused a request from the body of its answer. Its text is never passed on: clients get two numbers,
 * and operators get the error's type and code if they have the form of identifiers.
 */
import type { ContextExceeded } from "sluice-gateway/services";
import { isObject, parseOrUndefined } from "sluice-gateway/internal/toolkit";

/** Maximum number of bytes that are read. Bodies of refusals are short, and a worker may be hostile. */
export const maxRefusalBytes = 16 * 1024;
const maxMessageChars = 1_000;
const identifier = /^[A-Za-z0-9_.-]{1,64}$/;

export interface RefusalBody {
  readonly type?: string | undefined;
  readonly code?: string | undefined;
  readonly contextExceeded?: ContextExceeded | undefined;
}

export function readRefusal(body: Buffer, maxTokens: number | undefined): RefusalBody {
  const document = parseOrUndefined(body.toString("utf8"));
  if (!isObject(document)) return {};
  // OpenAI, llama.cpp and newer releases of vLLM nest the error; older releases of vLLM and TGI do not.
  const error = isObject(document["error"]) ? document["error"] : document;
  const type = identifierOf(error["type"]) ?? identifierOf(error["error_type"]);
  const code = identifierOf(error["code"]);
  const text = typeof error["message"] === "string" ? error["message"] : document["error"];
  const message = typeof text === "string" ? text.slice(0, maxMessageChars) : "";
  const isExceeded =
    code === "context_length_exceeded" ||
    type === "exceed_context_size_error" ||
    /context (?:length|size|window)|maximum model length|max_new_tokens. must be <=/i.test(message);
  return {
    type,
    code,
    contextExceeded: isExceeded ? limitIn(error, message, maxTokens) : undefined,
  };
}

/** The message by which vLLM, SGLang, TGI and OpenAI name the limit. */
const limitPattern =
  /(?:context (?:length|size|window)|model length|must be <=)[^0-9]{0,40}([0-9]{1,10})/i;

/** The tokens of the prompt, as vLLM and TGI name them. */
const inputPattern = /([0-9]{1,10}) `?inputs?`? tokens/i;

function limitIn(
  error: Readonly<Record<string, unknown>>,
  message: string,
  maxTokens: number | undefined,
): ContextExceeded {
  const limit = countOf(error["n_ctx"]) ?? countOf(limitPattern.exec(message)?.[1]);
  const others = (message.match(/[0-9]{1,10}/g) ?? []).map(Number).filter((n) => n !== limit);
  const most = countOf(error["n_prompt_tokens"]) ?? countOf(Math.max(0, ...others));
  if (limit === undefined || most === undefined) return { limit, requested: undefined };
  if (maxTokens !== undefined) {
    const prompt = countOf(inputPattern.exec(message)?.[1]) ?? summand(others, maxTokens);
    const isFitting = prompt !== undefined && prompt < limit && prompt + maxTokens > limit;
    if (isFitting) return { limit, requested: prompt + maxTokens, prompt };
  }
  // Some servers name only the tokens of the prompt, which fit without those of the answer.
  const requested = most > limit ? most : most + (maxTokens ?? 0);
  return { limit, requested: requested > limit ? requested : undefined };
}

/** Returns the number whose sum with `maxTokens` is also in the list. */
function summand(numbers: readonly number[], maxTokens: number): number | undefined {
  return numbers.find((n) => n !== maxTokens && numbers.includes(n + maxTokens));
}

function countOf(value: unknown): number | undefined {
  const count = typeof value === "string" ? Number(value) : value;
  return typeof count === "number" && Number.isSafeInteger(count) && count > 0 ? count : undefined;
}

function identifierOf(value: unknown): string | undefined {
  return typeof value === "string" && identifier.test(value) ? value : undefined;
}

/** Returns seconds from 1 to 300. Undefined for other forms than a number. */
export function retryAfterSeconds(text: string | undefined): number | undefined {
  if (text === undefined || !/^[0-9]{1,9}$/.test(text)) return undefined;
  return Math.min(300, Math.max(1, Number(text)));
}
