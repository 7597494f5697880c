/**
 * Bytes per request that outlive collections of young objects. The first collection copies such bytes, and the second
 * one promotes them: they then wait for a collection of the whole heap. One object per request that keeps its exchange
 * alive has doubled the CPU time of a call. The figures do not depend on the speed of the machine.
 */
import assert from "node:assert/strict";
import { fork, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { join } from "node:path";
import { before, test } from "node:test";
import { Pool } from "undici";
import { toolCalls } from "../../bench/load/mcp-calls.ts";
import { connectWs, type WsClient } from "../plugins/ledger/ledger-ws/ws-client.ts";
import { closed, healthyNode, listening, type RpcCall } from "./rpc-node.ts";

const clients = 4;
const warmUps = 2_000;
const measured = 4_000;
/**
 * Copied and promoted bytes. All routes keep 40 to 800 bytes. A closure or WeakMap that is stored per request keeps 2,700
 * to 10,200. Each collection copies about 90 KB that are in use at that moment, such as the exchanges in flight.
 */
const maxSurvivingBytes = 1_000;
/** Most of these are gone at the second collection, so promoted bytes show what a request leaves behind. */
const maxPromotedBytes = 300;

interface Sent {
  readonly method?: "GET" | "WebSocket";
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: (index: number) => object | string;
}

const mcpBodies = toolCalls("2026-07-28");
const chat = (stream: boolean): Sent => ({
  path: "/v1/chat/completions",
  body: () => ({ model: "m", stream, max_tokens: 8, messages: [{ role: "user", content: "Hi" }] }),
});
const responses = (stream: boolean): Sent => ({
  path: "/v1/responses",
  body: () => ({ model: "m", stream, max_output_tokens: 16, input: "Hi" }),
});
const messages = (stream: boolean): Sent => ({
  path: "/v1/messages",
  body: () => ({ model: "m", stream, max_tokens: 8, messages: [{ role: "user", content: "Hi" }] }),
});
const node: Sent = {
  path: "/v1/ledger/rpc",
  body: (id) => ({ jsonrpc: "2.0", id, method: "system_health", params: [] }),
};
/** In this order, because what one class of routes leaves in the heap can keep the exchanges of the next one alive. */
const classes: readonly (readonly [string, Sent])[] = [
  ["node calls", node],
  [
    "MCP calls",
    {
      path: "/mcp",
      headers: {
        accept: "application/json, text/event-stream",
        "mcp-protocol-version": "2026-07-28",
        "mcp-method": "tools/call",
        "mcp-name": "bench_0",
      },
      body: (index) => mcpBodies[index % mcpBodies.length] ?? "",
    },
  ],
  ["node calls after MCP calls", node],
  [
    "tool calls as JSON-RPC",
    {
      path: "/rpc",
      body: (id) => ({
        jsonrpc: "2.0",
        id,
        method: "tools.call",
        params: { tool: "bench_0", params: { text: `call ${id}` } },
      }),
    },
  ],
  ["chat in one piece", chat(false)],
  ["chat as a stream", chat(true)],
  ["responses in one piece", responses(false)],
  ["responses as a stream", responses(true)],
  ["messages in one piece", messages(false)],
  ["messages as a stream", messages(true)],
  ["embeddings", { path: "/v1/embeddings", body: () => ({ model: "m", input: "Hi" }) }],
  ["node calls over WebSocket", { ...node, method: "WebSocket" }],
  ["models", { method: "GET", path: "/v1/models" }],
  ["plain forwarding", { method: "GET", path: "/plain" }],
];

/** Bytes, in all of a measured part or per request. */
interface Survivors {
  copied: number;
  promoted: number;
}

const survivors = new Map<string, Survivors>();

before(async () => {
  const server = createServer((req, res) => void answer(req, res));
  const backend = await listening(server);
  const child = fork(join(import.meta.dirname, "survivors-gateway.ts"), [backend], {
    // The young generation has the size that `sluice start` gives it.
    execArgv: [
      "--expose-gc",
      "--trace-gc-nvp",
      "--min-semi-space-size=8",
      "--max-semi-space-size=8",
    ],
    stdio: ["ignore", "pipe", "inherit", "ipc"],
  });
  let trace = "";
  child.stdout?.setEncoding("utf8").on("data", (text: string) => (trace += text));
  const [{ url, key }] = (await once(child, "message")) as [{ url: string; key: string }];
  const pool = new Pool(url, { connections: clients });
  const sockets = await Promise.all(
    Array.from({ length: clients }, () => connectWs(url + node.path, { key })),
  );
  for (const [, sent] of classes) {
    for (const count of [warmUps, measured]) {
      if (sent.method === "WebSocket") await sendMessages(sockets, sent, count);
      else await send(pool, key, sent, count);
      await mark(child);
    }
  }
  for (const socket of sockets) await socket[Symbol.asyncDispose]();
  await pool.close();
  const ended = Promise.all([once(child, "exit"), once(child.stdout!, "end")]);
  child.disconnect();
  await ended;
  await closed(server);
  readSurvivors(trace).forEach(({ copied, promoted }, index) => {
    const perRequest = { copied: copied / measured, promoted: promoted / measured };
    survivors.set(classes[index]?.[0] ?? "", perRequest);
  });
});

for (const [name] of classes) {
  test(`few bytes per request outlive collections of young objects: ${name}`, (t) => {
    const { copied = Number.NaN, promoted = Number.NaN } = survivors.get(name) ?? {};
    const figures = `${copied.toFixed(0)} bytes copied, ${promoted.toFixed(0)} promoted`;
    t.diagnostic(figures);
    assert.ok(copied + promoted < maxSurvivingBytes, figures);
    assert.ok(promoted < maxPromotedBytes, figures);
  });
}

async function mark(child: ChildProcess): Promise<void> {
  child.send("mark");
  await once(child, "message");
}

async function send(pool: Pool, key: string, sent: Sent, count: number): Promise<void> {
  const { path, body } = sent;
  const method = sent.method === "GET" ? "GET" : "POST";
  const headers = {
    authorization: `Bearer ${key}`,
    "content-type": "application/json",
    ...sent.headers,
  };
  let next = 0;
  const run = async (): Promise<void> => {
    for (let index = next++; index < count; index = next++) {
      const given = body?.(index);
      const text = given === undefined || typeof given === "string" ? given : JSON.stringify(given);
      const got = await pool.request({
        method,
        path,
        headers,
        ...(text !== undefined && { body: text }),
      });
      const answered = await got.body.text();
      assert.equal(got.statusCode, 200, answered);
    }
  };
  await Promise.all(Array.from({ length: clients }, run));
}

async function sendMessages(
  sockets: readonly WsClient[],
  { body }: Sent,
  count: number,
): Promise<void> {
  let next = 0;
  const run = async (socket: WsClient): Promise<void> => {
    for (let index = next++; index < count; index = next++) {
      assert.match(await socket.ask(JSON.stringify(body?.(index))), /"result":/);
    }
  };
  await Promise.all(sockets.map(run));
}

/** Returns the bytes that outlived the collections of each measured part. V8 writes one line per collection. */
function readSurvivors(trace: string): Survivors[] {
  const parts: Survivors[] = [];
  const isolate = /^\[(\S+)\].*"reason":"testing"/m.exec(trace)?.[1] ?? "none";
  let isMeasured = false;
  let bytes = { copied: 0, promoted: 0 };
  for (const line of trace.split("\n")) {
    if (!line.startsWith(`[${isolate}]`)) continue;
    const text = /GC: (\{.*\})/.exec(line)?.[1];
    if (text === undefined) continue;
    const gc = JSON.parse(text) as Readonly<Record<string, unknown>>;
    if (gc["gc"] !== "s") continue;
    if (gc["reason"] === "testing") {
      if (isMeasured) parts.push(bytes);
      isMeasured = !isMeasured;
      bytes = { copied: 0, promoted: 0 };
    } else {
      bytes.copied += Number(gc["new_space_survived"]);
      bytes.promoted += Number(gc["promoted"]);
    }
  }
  return parts;
}

type Asked = RpcCall | RpcCall[] | { readonly stream: boolean } | { readonly input: unknown };

async function answer(req: IncomingMessage, res: ServerResponse): Promise<void> {
  let text = "";
  for await (const chunk of req.setEncoding("utf8")) text += String(chunk);
  if (req.method === "GET")
    return reply(res, { object: "list", data: [{ id: "m", object: "model" }] });
  const asked = JSON.parse(text) as Asked;
  if ("input" in asked) return reply(res, embedding);
  if ("stream" in asked) return asked.stream ? streamWords(res) : reply(res, whole);
  reply(
    res,
    Array.isArray(asked) ? asked.map(answerCall) : "method" in asked ? answerCall(asked) : {},
  );
}

function answerCall({ id, method, params = [] }: RpcCall): object {
  return { jsonrpc: "2.0", id, result: healthyNode[method]?.(params) ?? null };
}

function reply(res: ServerResponse, body: object): void {
  res.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(body));
}

const completion = { id: "c", created: 1, model: "m" };
const usage = { prompt_tokens: 1, completion_tokens: 8, total_tokens: 9 };
const whole = {
  ...completion,
  object: "chat.completion",
  choices: [{ index: 0, message: { role: "assistant", content: "Hello" }, finish_reason: "stop" }],
  usage,
};

const embedding = {
  object: "list",
  model: "m",
  data: [{ object: "embedding", index: 0, embedding: [0.5, -0.25] }],
  usage: { prompt_tokens: 1, total_tokens: 1 },
};

function streamWords(res: ServerResponse): void {
  const chunk = { ...completion, object: "chat.completion.chunk" };
  res.writeHead(200, { "content-type": "text/event-stream" });
  for (let at = 0; at < 8; at++) {
    const finish_reason = at === 7 ? "stop" : null;
    const choices = [{ index: 0, delta: { content: "word " }, finish_reason }];
    res.write(`data: ${JSON.stringify({ ...chunk, choices })}\n\n`);
  }
  res.end(`data: ${JSON.stringify({ ...chunk, choices: [], usage })}\n\ndata: [DONE]\n\n`);
}
