import type { PromptOptions } from "sluice-gateway/services";
import { isAbsent } from "sluice-gateway/internal/toolkit";
import * as check from "../completions/check.ts";
import type { Json } from "../completions/check.ts";
import { IgnoredNames } from "../completions/ignored-fields.ts";
import { unpooledBytes, type CompletionRequest } from "../completions/request.ts";

/** The maximum of OpenAI. */
export const maxInputs = 2048;
export const formats = ["float", "base64"] as const;
/** Maximum that no model exceeds. */
export const maxDimensions = 65_536;
/** Number of tokens that a model may add to an input, such as those for its beginning and its end. */
const tokensPerInput = 16;
/** The gateway estimates one token per four bytes, so a token in the input counts as four bytes. */
const bytesPerToken = 4;
/** Bytes: a fixed part, a part per input, and a limit for both together. */
const maxAnswer = { fixed: 64 * 1024, perInput: 256 * 1024, total: 40 * 1024 * 1024 };

const known: readonly string[] = ["model", "input", "encoding_format", "dimensions", "user"];

type Inputs = Readonly<Record<"count" | "textBytes" | "tokens", number>>;

/** Throws `InvalidRequest`. */
export function readEmbeddingsRequest(
  body: Json,
  options: PromptOptions | undefined,
): CompletionRequest {
  const { input, encoding_format: format, dimensions, user } = body;
  const model = check.name(body["model"], "model");
  const { count, textBytes, tokens } = readInput(input);
  if (!isAbsent(format) && !formats.some((one) => one === format)) {
    check.fail("encoding_format", "expected float or base64");
  }
  check.optional(dimensions, "dimensions", check.integer(1, maxDimensions));
  check.optional(user, "user", check.text);
  const ignored = new IgnoredNames();
  for (const name of Object.keys(body)) if (!known.includes(name)) ignored.addChosen(name);
  const { contextTokens = Infinity } = options ?? {};
  const { fixed, perInput, total } = maxAnswer;
  const forWorker = Object.fromEntries(known.map((name) => [name, body[name] ?? undefined]));
  return {
    api: "embeddings",
    model,
    stream: false,
    includeUsage: false,
    // The answer has no tokens that are charged.
    maxTokens: 0,
    passes: [],
    body: unpooledBytes(JSON.stringify(forWorker)),
    maxAnswerBytes: Math.min(total, fixed + perInput * count),
    promptBytes: textBytes + bytesPerToken * tokens,
    imageTokens: 0,
    maxPromptTokens: Math.min(textBytes + tokens + tokensPerInput * count, contextTokens * count),
    ignored: ignored.names,
  };
}

function readInput(input: unknown): Inputs {
  if (typeof input === "string")
    return { count: 1, textBytes: Buffer.byteLength(input), tokens: 0 };
  if (!Array.isArray(input) || input.length === 0) {
    check.fail("input", "expected a text, or a list of texts or of tokens that is not empty");
  }
  const list: readonly unknown[] = input;
  if (typeof list[0] === "number") {
    return { count: 1, textBytes: 0, tokens: countTokens(list, "input") };
  }
  if (list.length > maxInputs) check.fail("input", `expected a list of at most ${maxInputs}`);
  let [textBytes, tokens] = [0, 0];
  for (const [index, one] of list.entries()) {
    if (typeof one === "string") textBytes += Buffer.byteLength(one);
    else tokens += countTokens(one, `input[${index}]`);
  }
  return { count: list.length, textBytes, tokens };
}

function countTokens(value: unknown, param: string): number {
  const isList = Array.isArray(value) && value.length > 0;
  const isToken = (one: unknown): boolean => Number.isSafeInteger(one) && Number(one) >= 0;
  if (isList && value.every(isToken)) return value.length;
  return check.fail(param, "expected a text, or a list of tokens that is not empty");
}
