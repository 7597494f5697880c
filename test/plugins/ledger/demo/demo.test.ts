/**
 * The demo node: its transport is that of a Substrate node, and the answers of its methods agree with each other and with
 * one chain of nine blocks.
 */
import assert from "node:assert/strict";
import { once } from "node:events";
import { after, before, test } from "node:test";
import { WebSocket } from "ws";
import { startDemoNode, type DemoNode } from "../../../../plugins/ledger/demo/node.ts";
import { readRecording } from "../../../../plugins/ledger/demo/recording.ts";
import { call, errorOf, post, resultOf } from "./rpc-client.ts";

let node: DemoNode;
before(async () => void (node = await startDemoNode()));
after(() => node.close());

const { blocks } = readRecording();
const hashOf = (number: number): string => blocks[number]!.hash;
const head = hashOf(8);
const unknown = `0x${"ab".repeat(32)}`;
const events = "0x26aa394eea5630e07c48ae0c9558cef780d41e5e16056765bc8461851072c9d7";

test("block hashes are found by number, hex number, a list or no argument; above the head the hash is null", async () => {
  assert.equal(await resultOf(node.url, "chain_getBlockHash", 3), hashOf(3));
  assert.equal(await resultOf(node.url, "chain_getBlockHash", "0x3"), hashOf(3));
  assert.deepEqual(await resultOf(node.url, "chain_getBlockHash", [0, "0x1", 99]), [
    hashOf(0),
    hashOf(1),
    null,
  ]);
  assert.equal(await resultOf(node.url, "chain_getBlockHash"), head);
  assert.equal(await resultOf(node.url, "chain_getBlockHash", null), head);
  assert.equal(await resultOf(node.url, "chain_getHead"), head);
  assert.equal(await resultOf(node.url, "chain_getFinalizedHead"), head);
  assert.equal(await resultOf(node.url, "chain_getBlockHash", 9), null);
});

test("an unknown hash returns null, a malformed one -32602", async () => {
  assert.equal(await resultOf(node.url, "chain_getHeader", unknown), null);
  assert.equal(await resultOf(node.url, "chain_getBlock", unknown), null);
  for (const bad of ["0x12", "0xzz", 5, {}]) {
    assert.equal((await errorOf(node.url, "chain_getBlock", bad)).code, -32602);
  }
  for (const bad of ["x", -1, 1.5, 2 ** 32, {}, [true]]) {
    assert.equal((await errorOf(node.url, "chain_getBlockHash", bad)).code, -32602);
  }
});

test("a stored value is that of the named block, or else of the head", async () => {
  assert.equal(await resultOf(node.url, "state_getStorage", events, hashOf(0)), null);
  const first = await resultOf(node.url, "state_getStorage", events, hashOf(1));
  const last = await resultOf(node.url, "state_getStorage", events);
  assert.ok(typeof first === "string" && typeof last === "string" && first !== last);
  assert.equal(await resultOf(node.url, "state_getStorageAt", events, head), last);
  assert.equal(
    await resultOf(node.url, "state_getStorage", events.toUpperCase().replace("X", "x")),
    last,
  );
  assert.equal(await resultOf(node.url, "state_getStorageSize", events), (last.length - 2) / 2);
});

test("a missing key returns null, an unknown block 4003, and bad hex -32602", async () => {
  assert.equal(await resultOf(node.url, "state_getStorage", "0x1234"), null);
  assert.equal(await resultOf(node.url, "state_getStorageHash", "0x1234"), null);
  assert.equal(await resultOf(node.url, "state_getStorageSize", "0x1234"), null);
  const { code, message } = await errorOf(node.url, "state_getStorage", events, unknown);
  assert.equal(code, 4003);
  assert.match(message, /UnknownBlock/);
  assert.equal((await errorOf(node.url, "state_getStorage", "0x123")).code, -32602);
  assert.equal((await errorOf(node.url, "state_getStorage")).code, -32602);
});

test("Midnight's methods answer in their own shapes, with the same answer at every block", async () => {
  assert.deepEqual(await resultOf(node.url, "midnight_apiVersions"), [2]);
  assert.match(String(await resultOf(node.url, "midnight_ledgerVersion")), /synthetic/);
  const state = String(await resultOf(node.url, "midnight_contractState", "0aFF", hashOf(2)));
  assert.equal(Buffer.from(state, "hex").toString(), "synthetic state of 0aff at 2");
  const root = await resultOf(node.url, "midnight_zswapStateRoot");
  assert.ok(Array.isArray(root) && root.length === 32);
  assert.deepEqual(await resultOf(node.url, "midnight_zswapStateRoot", head), root);
  for (const params of [["0x12"], ["zz"], ["12", unknown], []]) {
    assert.equal((await errorOf(node.url, "midnight_contractState", ...params)).code, -32602);
  }
  assert.equal((await errorOf(node.url, "midnight_zswapStateRoot", unknown)).code, -32602);
});

test("rpc_methods lists exactly the methods that are answered, and none of them writes or subscribes", async () => {
  const listed = await resultOf(node.url, "rpc_methods");
  assert.ok(listed !== null && typeof listed === "object" && "methods" in listed);
  assert.ok(Array.isArray(listed.methods) && listed.methods.includes("rpc_methods"));
  for (const method of listed.methods) {
    assert.notEqual((await call(node.url, String(method))).error?.code, -32601);
  }
  for (const method of ["author_submitExtrinsic", "state_subscribeStorage", "dev_newBlock"]) {
    assert.equal((await errorOf(node.url, method)).code, -32601);
  }
});

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

test("a body over 15 MiB is refused with 413 and -32007", async () => {
  const { status, text } = await post(node.url, " ".repeat(15 * 1024 * 1024 + 1));
  assert.equal(status, 413);
  assert.match(text, /-32007/);
});

test("a request with another content type gets 415", async () => {
  const { status } = await post(node.url, "{}", { "content-type": "text/plain" });
  assert.equal(status, 415);
});

test("a request that is not a POST gets 405", async () => {
  assert.equal((await fetch(node.url)).status, 405);
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
