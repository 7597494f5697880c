/** Reads a request of OpenAI's embeddings and writes the request for the worker. */
import type { PromptOptions } from "sluice-gateway/services";
import { isAbsent, isObject } from "sluice-gateway/toolkit";
import type { ReadResult } from "../completions/api.ts";
import { IgnoredNames } from "../completions/ignored-fields.ts";
import { unpooledBytes, type CompletionRequest } from "../completions/request.ts";

type EmbeddingsRequestResult =
  | { readonly ok: true; readonly request: CompletionRequest }
  | Extract<ReadResult, { ok: false }>;

/** Maximum number of inputs of a request, as at OpenAI. */
export const maxInputs = 2048;
export const formats = ["float", "base64"] as const;
/** Maximum number of dimensions, which no model exceeds. */
export const maxDimensions = 65_536;
/** Number of tokens that a model may add to an input, such as those for its beginning and its end. */
const tokensPerInput = 16;
/** The gateway estimates one token per four bytes, so a token in the input counts as four bytes. */
const bytesPerToken = 4;
/** Maximum size of an answer in bytes: a fixed part, a part per input, and a limit for both together. */
const maxAnswer = { fixed: 64 * 1024, perInput: 256 * 1024, total: 40 * 1024 * 1024 };

const known: readonly string[] = ["model", "input", "encoding_format", "dimensions", "user"];

/** The size of the inputs. `tokens`: the number of tokens in lists of tokens. */
type Inputs = Readonly<Record<"count" | "textBytes" | "tokens", number>>;

class InvalidInput extends Error {
  readonly param: string;

  constructor(param: string, expected: string) {
    super(`${param} must be ${expected}`);
    this.param = param;
  }
}

type PromptOptionsOf = (model: string) => PromptOptions | undefined;

/** `promptOptionsOf` returns the options of the network that serves a model. */
export function readEmbeddingsRequest(
  body: unknown,
  promptOptionsOf: PromptOptionsOf,
): EmbeddingsRequestResult {
  const invalid = { ok: false, apiCode: "invalid_value" } as const;
  if (!isObject(body)) return { ...invalid, message: "the body must be a JSON object" };
  try {
    return { ok: true, request: requestOf(body, promptOptionsOf) };
  } catch (error) {
    if (!(error instanceof InvalidInput)) throw error;
    return { ...invalid, message: error.message, param: error.param };
  }
}

function requestOf(
  body: Readonly<Record<string, unknown>>,
  promptOptionsOf: PromptOptionsOf,
): CompletionRequest {
  const { model, input, encoding_format: format, dimensions, user } = body;
  if (typeof model !== "string" || model === "") throw new InvalidInput("model", "a model's id");
  const { count, textBytes, tokens } = readInput(input);
  if (!isAbsent(format) && !formats.some((one) => one === format)) {
    throw new InvalidInput("encoding_format", "float or base64");
  }
  if (!isAbsent(dimensions) && !isWhole(dimensions, 1, maxDimensions)) {
    throw new InvalidInput("dimensions", `a whole number from 1 to ${maxDimensions}`);
  }
  if (!isAbsent(user) && typeof user !== "string") throw new InvalidInput("user", "a string");
  const { contextTokens = Infinity } = promptOptionsOf(model) ?? {};
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
    ignored: unknownNames(body),
  };
}

/** Reads a text, a list of texts, a list of tokens, or a list of such lists. */
function readInput(input: unknown): Inputs {
  if (typeof input === "string")
    return { count: 1, textBytes: Buffer.byteLength(input), tokens: 0 };
  if (!Array.isArray(input) || input.length === 0) {
    throw new InvalidInput("input", "a text, or a list of texts or of tokens that is not empty");
  }
  const list: readonly unknown[] = input;
  if (typeof list[0] === "number") {
    return { count: 1, textBytes: 0, tokens: countTokens(list, "input") };
  }
  if (list.length > maxInputs) throw new InvalidInput("input", `a list of at most ${maxInputs}`);
  let [textBytes, tokens] = [0, 0];
  for (const [index, one] of list.entries()) {
    if (typeof one === "string") textBytes += Buffer.byteLength(one);
    else tokens += countTokens(one, `input[${index}]`);
  }
  return { count: list.length, textBytes, tokens };
}

function countTokens(value: unknown, param: string): number {
  const isList = Array.isArray(value) && value.length > 0;
  if (!isList || !value.every((token) => isWhole(token, 0, Number.MAX_SAFE_INTEGER))) {
    throw new InvalidInput(param, "a text, or a list of tokens that is not empty");
  }
  return value.length;
}

function isWhole(value: unknown, min: number, max: number): value is number {
  return Number.isInteger(value) && Number(value) >= min && Number(value) <= max;
}

function unknownNames(body: object): readonly string[] {
  const ignored = new IgnoredNames();
  for (const name of Object.keys(body)) if (!known.includes(name)) ignored.add(name);
  return ignored.names;
}
