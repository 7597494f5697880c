import assert from "node:assert/strict";

export interface RpcError {
  readonly code: number;
  readonly message: string;
  readonly data?: string;
}

export interface Reply {
  readonly jsonrpc: "2.0";
  readonly id: string | number | null;
  readonly result?: unknown;
  readonly error?: RpcError;
}

export async function post(
  url: string,
  body: string,
  headers: Readonly<Record<string, string>> = { "content-type": "application/json" },
): Promise<{ readonly status: number; readonly type: string | null; readonly text: string }> {
  const response = await fetch(url, { method: "POST", headers, body });
  return {
    status: response.status,
    type: response.headers.get("content-type"),
    text: await response.text(),
  };
}

export async function call(url: string, method: string, params?: unknown): Promise<Reply> {
  const { status, text } = await post(
    url,
    JSON.stringify({ jsonrpc: "2.0", id: 1, method, ...(params !== undefined && { params }) }),
  );
  assert.equal(status, 200);
  // JSON-RPC 2.0 defines this shape for every answer. The tests compare its members.
  return JSON.parse(text) as Reply;
}

export async function resultOf(
  url: string,
  method: string,
  ...params: unknown[]
): Promise<unknown> {
  const reply = await call(url, method, params);
  assert.equal(reply.error, undefined, `${method}: ${JSON.stringify(reply.error)}`);
  return reply.result;
}

export async function errorOf(
  url: string,
  method: string,
  ...params: unknown[]
): Promise<RpcError> {
  const { error } = await call(url, method, params);
  assert.ok(error, `${method} did not fail`);
  return error;
}
