/** The transport of the demo node: HTTP and WebSocket as in a Substrate node. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { connect } from "node:net";
import { after, before, test } from "node:test";
import { WebSocket } from "ws";
import { startDemoNode, type DemoNode } from "../../../../plugins/ledger/demo/node.ts";
import { post } from "./rpc-client.ts";

let node: DemoNode;
before(async () => void (node = await startDemoNode()));
after(() => node.close());

const health = { jsonrpc: "2.0", id: 1, method: "system_health" };

async function answer(body: string): Promise<unknown> {
  const { status, type, text } = await post(node.url, body);
  assert.equal(status, 200);
  assert.equal(type, "application/json; charset=utf-8");
  return text === "" ? "" : JSON.parse(text);
}

const invalid = (id: unknown) => ({
  jsonrpc: "2.0",
  id,
  error: { code: -32600, message: "Invalid request" },
});
const notFound = { code: -32601, message: "Method not found" };

for (const [name, sent, expected] of [
  ["an unknown method", { ...health, method: "x" }, { jsonrpc: "2.0", id: 1, error: notFound }],
  [
    "a member of Object.prototype as method",
    { ...health, method: "toString" },
    { jsonrpc: "2.0", id: 1, error: notFound },
  ],
  [
    "an id that is null",
    { ...health, id: null, method: "system_chainType" },
    { jsonrpc: "2.0", id: null, result: "Development" },
  ],
  [
    "an id that is text",
    { ...health, id: 'a"b', method: "system_chainType" },
    { jsonrpc: "2.0", id: 'a"b', result: "Development" },
  ],
  [
    "params that are null",
    { ...health, params: null, method: "system_chainType" },
    { jsonrpc: "2.0", id: 1, result: "Development" },
  ],
  ["a call without jsonrpc", { id: 7, method: "system_health" }, invalid(7)],
  ["params that are text", { ...health, params: "x" }, invalid(1)],
  ["a notification", { jsonrpc: "2.0", method: "system_health" }, ""],
  ["a call whose id is negative, which counts as a notification", { ...health, id: -1 }, ""],
  ["an empty batch", [], invalid(null)],
  ["a batch of notifications", [{ jsonrpc: "2.0", method: "system_health" }], ""],
  [
    "a batch with a bad element",
    [1, { ...health, method: "system_chainType" }, { id: "z" }],
    [invalid(null), { jsonrpc: "2.0", id: 1, result: "Development" }, invalid("z")],
  ],
  [
    "an empty object",
    {},
    { jsonrpc: "2.0", id: null, error: { code: -32700, message: "Parse error" } },
  ],
] as const) {
  test(`${name} is answered as by a real node`, async () => {
    assert.deepEqual(await answer(JSON.stringify(sent)), expected);
  });
}

test("braces around garbage are a parse error with status 200", async () => {
  assert.match(JSON.stringify(await answer("{nonsense}")), /-32700/);
  assert.match(JSON.stringify(await answer("[1,")), /-32700/);
});

test("a body that is neither object nor list is a parse error with status 400", async () => {
  for (const body of ["", "  ", "1", '"text"', "null"]) {
    const { status, text } = await post(node.url, body);
    assert.equal(status, 400, body);
    assert.match(text, /-32700/, body);
  }
});

test("a batch keeps its order, omits notifications, and may repeat ids", async () => {
  const batch = [
    { ...health, method: "system_chain" },
    { jsonrpc: "2.0", method: "system_chain" },
    { ...health, method: "system_name" },
  ];
  assert.deepEqual(await answer(JSON.stringify(batch)), [
    { jsonrpc: "2.0", id: 1, result: "Coretime Demo" },
    { jsonrpc: "2.0", id: 1, result: "Sluice Demo Node" },
  ]);
});

test("members have the order jsonrpc, id, result", async () => {
  const { text } = await post(node.url, JSON.stringify({ ...health, method: "system_chainType" }));
  assert.equal(text, '{"jsonrpc":"2.0","id":1,"result":"Development"}');
});

test("a body over 15 MiB is refused with 413 and -32007", async () => {
  const { status, text } = await post(node.url, " ".repeat(15 * 1024 * 1024 + 1));
  assert.equal(status, 413);
  assert.match(text, /-32007/);
});

test("a request with another content type gets 415", async () => {
  const { status } = await post(node.url, "{}", { "content-type": "text/plain" });
  assert.equal(status, 415);
});

test("a content type with a charset, or json-rpc, is accepted", async () => {
  for (const type of ["Application/JSON; charset=UTF-8", "application/json-rpc"]) {
    const { status } = await post(node.url, JSON.stringify(health), { "content-type": type });
    assert.equal(status, 200, type);
  }
});

test("a request that is not a POST gets 405", async () => {
  assert.equal((await fetch(node.url)).status, 405);
});

test("a client that leaves in the middle of a request does not affect the next one", async () => {
  const socket = connect(Number(new URL(node.url).port), "127.0.0.1");
  socket.write(
    "POST / HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 99\r\n\r\n{",
  );
  await once(socket, "connect");
  socket.destroy();
  assert.equal((await post(node.url, JSON.stringify(health))).status, 200);
});

test("a WebSocket carries calls and batches, as text or binary, and notifications get no answer", async () => {
  const socket = new WebSocket(node.url.replace("http", "ws"));
  await once(socket, "open");
  socket.send(JSON.stringify({ jsonrpc: "2.0", method: "system_chain" }));
  socket.send(JSON.stringify({ ...health, id: 2, method: "system_chain" }));
  const [first] = await once(socket, "message");
  assert.equal(String(first), '{"jsonrpc":"2.0","id":2,"result":"Coretime Demo"}');
  socket.send(Buffer.from("[]"));
  const [second] = await once(socket, "message");
  assert.match(String(second), /-32600/);
  socket.close();
  await once(socket, "close");
});

test("if a WebSocket client breaks the protocol, only its own connection ends", async () => {
  const socket = connect(Number(new URL(node.url).port), "127.0.0.1");
  socket.write(
    "GET / HTTP/1.1\r\nhost: x\r\nupgrade: websocket\r\nconnection: upgrade\r\n" +
      "sec-websocket-version: 13\r\nsec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n",
  );
  await once(socket, "data");
  socket.write(Buffer.from([0xff, 0xff, 0xff, 0xff]));
  socket.resume();
  await once(socket, "close");
  assert.equal((await post(node.url, JSON.stringify(health))).status, 200);
});

test("closing cuts open connections and frees the port", async () => {
  const other = await startDemoNode();
  const socket = new WebSocket(other.url.replace("http", "ws"));
  await once(socket, "open");
  await post(other.url, JSON.stringify(health));
  const closed = once(socket, "close");
  await other.close();
  await closed;
  const again = await startDemoNode({ port: Number(new URL(other.url).port) });
  await again.close();
});

test("starting on a port in use rejects", async () => {
  await assert.rejects(startDemoNode({ port: Number(new URL(node.url).port) }), {
    code: "EADDRINUSE",
  });
});
