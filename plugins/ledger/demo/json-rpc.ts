/** Answers JSON-RPC 2.0 in the same way as a Substrate node (jsonrpsee 0.24). */
import { isObject, parseOrUndefined } from "sluice-gateway/internal/toolkit";
import { RpcFailure, type Method } from "./method.ts";

export interface Answer {
  readonly status: 200 | 400;
  readonly body: string;
}

type Id = string | number | null;

export function answerBody(methods: ReadonlyMap<string, Method>, text: string): Answer {
  const first = /^\s*(.)/s.exec(text)?.[1];
  if (first !== "{" && first !== "[") return { status: 400, body: parseError };
  const value = parseOrUndefined(text);
  if (value === undefined) return { status: 200, body: parseError };
  if (!Array.isArray(value)) return { status: 200, body: answerOne(methods, value, parseError) };
  if (value.length === 0) return { status: 200, body: invalidRequest(null) };
  // One by one and in order, like a node.
  const answers = value.map((item) => answerOne(methods, item, invalidRequest(null)));
  const given = answers.filter((answer) => answer !== "");
  return { status: 200, body: given.length === 0 ? "" : `[${given.join(",")}]` };
}

/** `unreadable`: answer to an item without a usable id. */
function answerOne(
  methods: ReadonlyMap<string, Method>,
  item: unknown,
  unreadable: string,
): string {
  const { jsonrpc, id, method, params } = members(item);
  const callable = jsonrpc === "2.0" && typeof method === "string" && isParams(params);
  if (!isId(id)) return callable ? "" : unreadable;
  if (!callable) return invalidRequest(id);
  const found = methods.get(method);
  if (found === undefined) return failure(id, -32601, "Method not found");
  try {
    const result = found.run(...positional(found, params)) ?? null;
    return JSON.stringify({ jsonrpc: "2.0", id, result });
  } catch (error) {
    if (error instanceof RpcFailure) return failure(id, error.code, error.message, error.data);
    throw error;
  }
}

function members(item: unknown): Readonly<Record<string, unknown>> {
  return isObject(item) ? item : {};
}

/** A negative or fractional number is not an id. A call with such an id counts as a notification. */
function isId(id: unknown): id is Id {
  if (id === null || typeof id === "string") return true;
  return typeof id === "number" && Number.isSafeInteger(id) && id >= 0;
}

function isParams(params: unknown): params is undefined | null | unknown[] | object {
  return params === undefined || typeof params === "object";
}

function positional(method: Method, params: undefined | null | unknown[] | object): unknown[] {
  if (Array.isArray(params)) return params;
  const named = members(params);
  return method.params.map((name) => (Object.hasOwn(named, name) ? named[name] : undefined));
}

function failure(id: Id, code: number, message: string, data?: string): string {
  return JSON.stringify({ jsonrpc: "2.0", id, error: { code, message, data } });
}

function invalidRequest(id: Id): string {
  return failure(id, -32600, "Invalid request");
}

const parseError = failure(null, -32700, "Parse error");
