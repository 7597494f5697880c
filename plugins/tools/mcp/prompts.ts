import type { Dialogue, Prompt, PromptResult } from "sluice-gateway/services";
import { isObject } from "sluice-gateway/internal/toolkit";
import { logFailure, withTimeLimit, type McpCall } from "./mcp-call.ts";
import type { RpcFailure } from "../json-rpc-texts.ts";
import { codes, internalError, invalidParams, type Params } from "./json-rpc.ts";
import { missingCapabilityError } from "./resources.ts";

/** Maximum number of values in one completion (a limit of the protocol). */
const maxValues = 100;

export async function getPrompt(
  call: McpCall,
  params: Params,
  dialogue: Dialogue | undefined,
): Promise<PromptResult | RpcFailure> {
  const prompt = promptOf(call, params["name"]);
  if (prompt === undefined) return invalidParams("unknown prompt");
  const refused = refusalOf(call, prompt);
  if (refused !== undefined) return refused;
  const values = valuesOf(params["arguments"] ?? {});
  if (values === undefined) return invalidParams("arguments must be an object of strings");
  const missing = prompt.arguments?.find((one) => one.required === true && !(one.name in values));
  if (missing !== undefined) return invalidParams(`the argument ${missing.name} is missing`);
  try {
    const begun = prompt.get(values, { principal: call.principal, dialogue });
    return checked(await withTimeLimit(call.server.clock, begun));
  } catch (error) {
    logFailure(call, error, { prompt: prompt.name }, "a prompt failed");
    return internalError;
  }
}

/** Throws for a result that the contract does not allow, which is a bug of the plugin. */
function checked(got: PromptResult): PromptResult {
  // A plugin in JavaScript can return anything.
  const isValid: boolean = got.ok ? Array.isArray(got.messages) : typeof got.message === "string";
  if (!isValid) throw new Error("the prompt returned neither messages nor a failure");
  // Throws for messages that JSON cannot represent.
  JSON.stringify(got);
  return got.ok ? got : { ...got, ok: false };
}

/** Returns the members of the result as JSON text. */
export function promptMembers(got: PromptResult | RpcFailure): string | RpcFailure {
  if (!("ok" in got)) return got;
  if (got.ok) return `"messages":${JSON.stringify(got.messages)}`;
  const { code: errorCode, message } = got;
  const code = errorCode === "GATEWAY_INVALID_PARAMS" ? codes.invalidParams : codes.internal;
  return { code, message, data: { errorCode } };
}

/** Returns members of the result, which are empty for an argument without completion. */
export function completion(call: McpCall, params: Params): string | RpcFailure {
  const { ref, argument } = params;
  if (!isObject(ref) || !isObject(argument) || typeof argument["value"] !== "string") {
    return invalidParams("ref and argument must be objects, and argument.value a string");
  }
  const prompt = promptOf(call, ref["name"]);
  const refused = prompt && refusalOf(call, prompt);
  if (refused !== undefined) return refused;
  const found = prompt?.arguments?.find((one) => one.name === argument["name"]);
  try {
    const values = found?.complete ? textsOf(found.complete(argument["value"])) : [];
    const shown = values.slice(0, maxValues);
    const hasMore = values.length > shown.length;
    return `"completion":${JSON.stringify({ values: shown, total: values.length, hasMore })}`;
  } catch (error) {
    logFailure(call, error, { prompt: prompt?.name }, "a completion failed");
    return internalError;
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

function refusalOf({ principal }: McpCall, { capability }: Prompt): RpcFailure | undefined {
  return capability === undefined || principal.key.capabilities.has(capability)
    ? undefined
    : missingCapabilityError(capability);
}

function valuesOf(given: unknown): Readonly<Record<string, string>> | undefined {
  if (!isObject(given)) return undefined;
  for (const value of Object.values(given)) if (typeof value !== "string") return undefined;
  // All values have been checked to be strings.
  return given as Readonly<Record<string, string>>;
}
