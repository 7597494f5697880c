/** `prompts/get` and `completion/complete`: the prompts that tools plugins offer. */
import type { Dialogue, Prompt, PromptResult } from "sluice-gateway/plugin";
import { logFailure, type McpCall } from "./mcp-call.ts";
import { withTimeLimit } from "./time-limit.ts";
import { codes, invalidParams, isObject, type Params, type RpcFailure } from "./json-rpc.ts";
import { denied } from "./resources.ts";

/** The most values that one completion may have (the protocol's own limit). */
const maxValues = 100;

export type Got = PromptResult | { readonly ok: false; readonly failure: RpcFailure };

const internal: RpcFailure = { code: codes.internal, message: "Internal error" };

/** The prompt asked for, or what is wrong with the question. */
export async function getPrompt(
  call: McpCall,
  params: Params,
  dialogue: Dialogue | undefined,
): Promise<Got> {
  const prompt = promptOf(call, params["name"]);
  if (prompt === undefined) return wrong("there is no prompt of that name");
  const { capability } = prompt;
  if (capability !== undefined && !call.principal.key.capabilities.has(capability)) {
    return { ok: false, failure: denied(capability) };
  }
  const values = valuesOf(params["arguments"] ?? {});
  if (values === undefined) return wrong("arguments must be an object of strings");
  const missing = prompt.arguments?.find((one) => one.required === true && !(one.name in values));
  if (missing !== undefined) return wrong(`the argument ${missing.name} is missing`);
  try {
    const begun = prompt.get(values, { principal: call.principal, dialogue });
    return await withTimeLimit(call.server.clock, begun);
  } catch (error) {
    logFailure(call, error, { prompt: prompt.name }, "a prompt failed");
    return { ok: false, failure: internal };
  }
}

/** The failure of a prompt that asks nothing. */
export function promptFailure(got: Extract<Got, { readonly ok: false }>): RpcFailure {
  if ("failure" in got) return got.failure;
  const { code: errorCode, message } = got;
  const code = errorCode === "GATEWAY_INVALID_PARAMS" ? codes.invalidParams : codes.internal;
  return { code, message, data: { errorCode } };
}

export function promptMembers(got: Extract<PromptResult, { readonly ok: true }>): string {
  return `"messages":${JSON.stringify(got.messages)}`;
}

/** Values for an argument of a prompt: none for what has no completion of its own. Members of the result. */
export function completion(call: McpCall, params: Params): string | RpcFailure {
  const { ref, argument } = params;
  if (!isObject(ref) || !isObject(argument) || typeof argument["value"] !== "string") {
    return invalidParams("ref and argument must be objects, and argument.value a string");
  }
  const prompt = promptOf(call, ref["name"]);
  const found = prompt?.arguments?.find((one) => one.name === argument["name"]);
  let values: readonly string[];
  try {
    values = found?.complete?.(argument["value"]) ?? [];
  } catch (error) {
    logFailure(call, error, { prompt: prompt?.name }, "a completion failed");
    return internal;
  }
  const shown = values.slice(0, maxValues);
  const hasMore = values.length > shown.length;
  return `"completion":${JSON.stringify({ values: shown, total: values.length, hasMore })}`;
}

function promptOf({ server }: McpCall, name: unknown): Prompt | undefined {
  return server.tools.prompts.find((prompt) => prompt.name === name);
}

function valuesOf(given: unknown): Readonly<Record<string, string>> | undefined {
  if (!isObject(given)) return undefined;
  for (const value of Object.values(given)) if (typeof value !== "string") return undefined;
  // Every value has just been seen to be a string.
  return given as Readonly<Record<string, string>>;
}

function wrong(message: string): Got {
  return { ok: false, failure: invalidParams(message) };
}
