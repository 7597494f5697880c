import type { CallReport, JsonRpcItem } from "sluice-gateway/plugin";
import {
  toolFailure,
  toolReport,
  type CatalogueEntry,
  type ToolCaller,
  type ToolFailure,
  type ToolOutcome,
  type Tools,
} from "sluice-gateway/services";
import { isObject, parseJson } from "sluice-gateway/internal/toolkit";
import { errorText, notRunMessage, resultText, tooLargeMessage } from "../json-rpc-texts.ts";
import { perList } from "../per-list.ts";
import { rpcCodeOf, codes, invalidRequest } from "./error-codes.ts";

/** `text`: JSON, empty for a notification. `failure`: determines the HTTP status. */
export interface RpcAnswer {
  readonly text: string;
  readonly failure?: ToolFailure | undefined;
}

export interface RequestHandler {
  /** Never rejects. Returns a promise only if a tool returns one. A notification runs like a call. */
  answer(item: JsonRpcItem, caller: ToolCaller): RpcAnswer | Promise<RpcAnswer>;
  /** Answers a request that is not run, because the earlier answers are too large. */
  refuseOversized(item: JsonRpcItem, caller: ToolCaller): RpcAnswer;
  /** Answers a request that was run, if there is no room for its own answer. */
  oversized(item: JsonRpcItem): RpcAnswer;
}

const methods = ["tools.list", "tools.call"];

export function protocolReport(method: string, code?: string): CallReport {
  return { kind: "protocol", name: method, isListed: methods.includes(method), code };
}

const silent: RpcAnswer = { text: "" };
const notRun = toolFailure("GATEWAY_TOOL_EXECUTION_ERROR", notRunMessage);
const oversized = toolFailure("GATEWAY_TOOL_EXECUTION_ERROR", tooLargeMessage);

interface CallParams {
  readonly tool: string;
  readonly input: unknown;
  /** The confirmation token, which may also be sent next to the input. */
  readonly token: string | undefined;
}

export function createRequestHandler(tools: Tools): RequestHandler {
  const listing = perList(tools, listingOf);
  const names = perList(tools, (list) => new Set(list.map(({ name }) => name)));

  function answer(item: JsonRpcItem, caller: ToolCaller): RpcAnswer | Promise<RpcAnswer> {
    if (item.kind === "invalid") {
      caller.calls?.called(protocolReport("", "INVALID_REQUEST"));
      return { text: errorText(item.id, invalidRequest) };
    }
    const id = item.kind === "call" ? item.id : undefined;
    if (item.method === "tools.call") return call(id, item.params, caller);
    if (id === undefined) return silent;
    if (item.method === "tools.list") {
      caller.calls?.called(protocolReport(item.method));
      return { text: resultText(id, listing()) };
    }
    caller.calls?.called(protocolReport(item.method, "METHOD_NOT_FOUND"));
    const message = names().has(item.method)
      ? "Method not found: a tool is called through tools.call"
      : "Method not found";
    return { text: errorText(id, { code: codes.methodNotFound, message }) };
  }

  function call(
    id: string | undefined,
    text: string,
    caller: ToolCaller,
  ): RpcAnswer | Promise<RpcAnswer> {
    const params = readParams(text);
    if ("ok" in params) {
      caller.calls?.called(protocolReport("tools.call", "INVALID_PARAMS"));
      return failed(id, params);
    }
    const { tool, input, token } = params;
    const asking = token === undefined ? caller : { ...caller, confirmationToken: token };
    const outcome = tools.call(tool, input, asking);
    return outcome instanceof Promise
      ? outcome.then((late) => answerOf(id, late, caller))
      : answerOf(id, outcome, caller);
  }

  return {
    answer,
    refuseOversized(item, { calls }) {
      calls?.called(protocolReport("tools.call", "UPSTREAM_ERROR"));
      return item.kind === "invalid"
        ? { text: errorText(item.id, invalidRequest) }
        : failed(item.kind === "call" ? item.id : undefined, notRun);
    },
    oversized: (item) => failed(item.kind === "call" ? item.id : undefined, oversized),
  };
}

function answerOf(id: string | undefined, outcome: ToolOutcome, { calls }: ToolCaller): RpcAnswer {
  calls?.called(toolReport(outcome));
  if (!outcome.ok) return failed(id, outcome);
  if (id === undefined) return silent;
  const { json, usedCUMilli } = outcome;
  return { text: resultText(id, `{"content":${json},"usedCUMilli":${usedCUMilli}}`) };
}

/** Clients decide by the error code. */
function failed(id: string | undefined, failure: ToolFailure): RpcAnswer {
  if (id === undefined) return { text: "", failure };
  const { code, message, details } = failure;
  const data = { errorCode: code, details };
  return { text: errorText(id, { code: rpcCodeOf(code), message, data }), failure };
}

function invalid(message: string): ToolFailure {
  return toolFailure("GATEWAY_INVALID_PARAMS", message);
}

/** A tool without input may be called without `params`. `text`: valid JSON, or empty. */
function readParams(text: string): CallParams | ToolFailure {
  const value: unknown = text === "" ? undefined : parseJson(text);
  if (!isObject(value)) {
    return invalid("tools.call takes params of the form { tool, params }");
  }
  const { tool, params: input = {}, confirmation_token: token } = value;
  if (typeof tool !== "string") return invalid("params.tool must be the name of a tool");
  if (token === undefined || typeof token === "string") return { tool, input, token };
  return invalid("params.confirmation_token must be a string");
}

function listingOf(list: readonly CatalogueEntry[]): string {
  return JSON.stringify({
    tools: list.map((entry) => ({
      name: entry.name,
      description: entry.description,
      inputSchema: entry.inputSchema,
      outputSchema: entry.outputSchema,
      estimatedCUMilli: entry.estimatedCUMilli,
      estimatedCUVaries: entry.estimatedCUVaries,
    })),
  });
}
