import type { Dialogue, Prompt, PromptResult } from "sluice-gateway/services";
import { isObject } from "sluice-gateway/internal/toolkit";
import { logFailure, type McpCall } from "./mcp-call.ts";
import { withTimeLimit } from "./time-limit.ts";
import { codes, invalidParams, type Params, type RpcFailure } from "./json-rpc.ts";
import { missingCapabilityError } from "./resources.ts";

/** Maximum number of values in one completion (a limit of the protocol). */
const maxValues = 100;

export type PromptOutcome = PromptResult | { readonly ok: false; readonly failure: RpcFailure };

const internal: RpcFailure = { code: codes.internal, message: "Internal error" };

export async function getPrompt(
  call: McpCall,
  params: Params,
  dialogue: Dialogue | undefined,
): Promise<PromptOutcome> {
  const prompt = promptOf(call, params["name"]);
  if (prompt === undefined) return wrong("unknown prompt");
  const { capability } = prompt;
  if (capability !== undefined && !call.principal.key.capabilities.has(capability)) {
    return { ok: false, failure: missingCapabilityError(capability) };
  }
  const values = valuesOf(params["arguments"] ?? {});
  if (values === undefined) return wrong("arguments must be an object of strings");
  const missing = prompt.arguments?.find((one) => one.required === true && !(one.name in values));
  if (missing !== undefined) return wrong(`the argument ${missing.name} is missing`);
  try {
    const begun = prompt.get(values, { principal: call.principal, dialogue });
    return checked(await withTimeLimit(call.server.clock, begun));
  } catch (error) {
    logFailure(call, error, { prompt: prompt.name }, "a prompt failed");
    return { ok: false, failure: internal };
  }
}

/** Throws for a result that the contract does not allow, which is a bug of the plugin. */
function checked(got: PromptResult): PromptResult {
  // A plugin in JavaScript can return anything.
  const isValid: boolean = got.ok ? Array.isArray(got.messages) : typeof got.message === "string";
  if (!isValid) throw new Error("the prompt returned neither messages nor a failure");
  // Throws for messages that JSON cannot represent.
  JSON.stringify(got);
  return got;
}

export function promptFailure(got: Extract<PromptOutcome, { readonly ok: false }>): RpcFailure {
  if ("failure" in got) return got.failure;
  const { code: errorCode, message } = got;
  const code = errorCode === "GATEWAY_INVALID_PARAMS" ? codes.invalidParams : codes.internal;
  return { code, message, data: { errorCode } };
}

export function promptMembers(got: Extract<PromptResult, { readonly ok: true }>): string {
  return `"messages":${JSON.stringify(got.messages)}`;
}

/** Returns members of the result, which are empty for an argument without completion. */
export function completion(call: McpCall, params: Params): string | RpcFailure {
  const { ref, argument } = params;
  if (!isObject(ref) || !isObject(argument) || typeof argument["value"] !== "string") {
    return invalidParams("ref and argument must be objects, and argument.value a string");
  }
  const prompt = promptOf(call, ref["name"]);
  const found = prompt?.arguments?.find((one) => one.name === argument["name"]);
  try {
    const values = found?.complete ? textsOf(found.complete(argument["value"])) : [];
    const shown = values.slice(0, maxValues);
    const hasMore = values.length > shown.length;
    return `"completion":${JSON.stringify({ values: shown, total: values.length, hasMore })}`;
  } catch (error) {
    logFailure(call, error, { prompt: prompt?.name }, "a completion failed");
    return internal;
  }
}

/** Throws for anything but a list of strings, which a plugin in JavaScript can return. */
function textsOf(values: unknown): readonly string[] {
  // Nothing waits for a promise, so its rejection would end the process.
  if (values instanceof Promise) values.catch(() => {});
  if (Array.isArray(values) && values.every((value) => typeof value === "string")) return values;
  throw new Error("the completion is not a list of strings");
}

function promptOf({ server }: McpCall, name: unknown): Prompt | undefined {
  return server.tools.prompts.find((prompt) => prompt.name === name);
}

function valuesOf(given: unknown): Readonly<Record<string, string>> | undefined {
  if (!isObject(given)) return undefined;
  for (const value of Object.values(given)) if (typeof value !== "string") return undefined;
  // All values have been checked to be strings.
  return given as Readonly<Record<string, string>>;
}

function wrong(message: string): PromptOutcome {
  return { ok: false, failure: invalidParams(message) };
}
