/** How the plugin `ledger` distributes calls over nodes, and retries those that fail. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { startChainNode, startPool, until } from "./nodes.ts";
import { failure, response, startNode, type Script } from "./scripted-node.ts";
import { startWsNode } from "./scripted-ws-node.ts";

const status =
  (line: string, body = ""): Script =>
  ({ socket }) =>
    void socket.write(response(body, `HTTP/1.1 ${line}`));
const error =
  (object: object): Script =>
  (received) =>
    void received.socket.write(response(failure(received.call().id, object)));

test("calls are served before the first probe", async () => {
  await using node = await startChainNode("a");
  await using under = await startPool([node.url]);
  const known = (): unknown[] => under.nodes().flatMap(({ best, finalized }) => [best, finalized]);
  assert.deepEqual([under.ready, ...known()], [false, undefined, undefined]);
  assert.equal(await under.outcome(), '"a"');
  await under.probed;
  assert.deepEqual([under.ready, ...known()], [true, 100, 98]);
});

test("a node that is busy with other calls gets fewer", async () => {
  await using a = await startChainNode("a");
  await using b = await startChainNode("b");
  a.calls = () => {};
  await using under = await startPool([a.url, b.url]);
  await under.probed;
  void under.outcome();
  void under.outcome();
  await until(() => a.asked.length === 1 && b.asked.length === 1);
  // While one call hangs at `a`, the next ones go to `b`.
  for (let i = 0; i < 5; i++) assert.equal(await under.outcome(), '"b"');
  assert.equal(a.asked.length, 1);
});

const busy = { code: -32009, message: "Server is busy, try again later" };
const elsewhere: readonly [name: string, script: Script][] = [
  ["closes the connection", ({ socket }) => void socket.destroy()],
  ["says 429", status("429 Too Many Requests", "Too many connections")],
  ["says 502 with a page", status("502 Bad Gateway", "<html></html>")],
  ["answers garbage", status("200 OK", "<html></html>")],
  ["answers another call", status("200 OK", '{"id":123456,"result":"wrong"}')],
  ["is busy", error(busy)],
  ["has used up its rate limit", error({ code: -32999, message: "RPC rate limit" })],
  [
    "has discarded the state",
    error({ code: 4003, message: "Client error: UnknownBlock: State already discarded for 0x01" }),
  ],
  [
    "does not have the block yet",
    error({ code: 4003, message: "Client error: UnknownBlock: Header was not found" }),
  ],
  ["says so without a code", error({ message: "Api called for an unknown Block: 0x01" })],
  [
    "stops half-way",
    ({ socket }) => void socket.end("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{"),
  ],
];
for (const [name, script] of elsewhere) {
  test(`a read is retried on the next node if a node ${name}, and other calls are not`, async () => {
    await using a = await startChainNode("a");
    await using b = await startChainNode("b");
    await using under = await startPool([a.url, b.url]);
    await under.probed;
    a.calls = script;
    // Whichever node is first, `b` answers.
    assert.equal(await under.outcome(), '"b"');
    assert.equal(await under.outcome(), '"b"');
    assert.equal(a.asked.length, 1);
    b.calls = script;
    const before = a.asked.length + b.asked.length;
    await under.outcome("author_submitExtrinsic");
    assert.equal(a.asked.length + b.asked.length, before + 1);
  });
}

test("a node's error about the call itself is not retried", async () => {
  await using a = await startChainNode("a");
  await using b = await startChainNode("b");
  await using under = await startPool([a.url, b.url]);
  await under.probed;
  const invalid = { code: -32602, message: "Invalid params", data: "x" };
  a.calls = b.calls = error(invalid);
  assert.equal(await under.outcome(), JSON.stringify(invalid));
  assert.equal(a.asked.length + b.asked.length, 1);
});

test("if every node fails, the error of the first node is the answer", async () => {
  await using a = await startChainNode("a");
  await using b = await startChainNode("b");
  await using c = await startChainNode("c");
  await using under = await startPool([a.url, b.url, c.url]);
  await under.probed;
  const scripts = [
    error(busy),
    status("503 No"),
    ({ socket }) => void socket.destroy(),
  ] as const satisfies Script[];
  for (const [i, node] of [a, b, c].entries()) {
    node.calls = (received) => scripts[(i + turn) % 3]?.(received);
  }
  let turn = 0;
  for (; turn < 3; turn++) assert.equal(await under.outcome(), JSON.stringify(busy));
});

test("a read is tried on at most three nodes", async () => {
  const nodes = await Promise.all(["a", "b", "c", "d", "e"].map((name) => startChainNode(name)));
  await using under = await startPool(nodes.map(({ url }) => url));
  await under.probed;
  for (const node of nodes) node.calls = status("503 No");
  assert.equal(await under.outcome(), "unreachable");
  assert.deepEqual(
    nodes.map(({ asked }) => asked.length).toSorted((a, b) => a - b),
    [0, 0, 1, 1, 1],
  );
  for (const node of nodes) await node.close();
});

test("a call that timed out on one node is not retried on others", async () => {
  await using a = await startChainNode("a");
  await using b = await startChainNode("b");
  await using under = await startPool([a.url, b.url]);
  await under.probed;
  a.calls = b.calls = () => {};
  const asked = under.outcome();
  await until(() => a.asked.length + b.asked.length === 1);
  under.clock.advance(4_500);
  assert.equal(await asked, "timeout");
  assert.equal(a.asked.length + b.asked.length, 1);
});

test("a call whose answer was too large is not retried", async () => {
  await using a = await startChainNode("a");
  await using b = await startChainNode("b");
  await using under = await startPool([a.url, b.url]);
  await under.probed;
  a.calls = b.calls = ({ socket }) =>
    void socket.write("HTTP/1.1 200 OK\r\nContent-Length: 100001\r\n\r\n");
  assert.equal(await under.outcome(), "garbage");
  assert.equal(a.asked.length + b.asked.length, 1);
});

test("cheap calls are batched", async () => {
  const bodies: string[] = [];
  await using node = await startNode((received) => {
    bodies.push(received.body);
    const calls = received.body.startsWith("[") ? received.calls() : [received.call()];
    const answers = calls.map(({ id }) => `{"jsonrpc":"2.0","id":${id},"result":${id}}`);
    const body = received.body.startsWith("[") ? `[${answers.join(",")}]` : answers.join();
    received.socket.write(response(body));
  });
  await using under = await startPool([node.url]);
  await under.probed;
  const before = bodies.length;
  const calls = Array.from({ length: 5 }, () => under.outcome("state_getStorage"));
  assert.equal(new Set(await Promise.all(calls)).size, 5);
  assert.equal(bodies.length, before + 1);
  await Promise.all([under.outcome("state_call"), under.outcome("state_call")]);
  assert.equal(bodies.length, before + 3, "other calls are not");
});

test("a read is retried from an HTTP node to a WebSocket node and back", async () => {
  await using http = await startChainNode("http");
  const ws = await startWsNode((text, socket) => {
    const { id, method } = JSON.parse(text) as { id: number; method: string };
    const results: Record<string, unknown> = {
      system_health: { peers: 1, isSyncing: false, shouldHavePeers: true },
      chain_getHeader: { number: "0x64" },
      chain_getFinalizedHead: "0xf1",
      chain_getBlockHash: http.chain.genesis,
      state_getRuntimeVersion: { specName: "test", specVersion: 1 },
    };
    socket.send(JSON.stringify({ jsonrpc: "2.0", id, result: results[method] ?? "ws" }));
  });
  await using under = await startPool([http.url, ws.url]);
  await under.probed;
  assert.deepEqual(under.exclusionReasons(), [undefined, undefined]);
  // The WebSocket is busy while the depth of the node's state is measured.
  await until(() => under.nodes().every(({ oldest_state: oldest }) => oldest !== undefined));
  const answers = [await under.outcome(), await under.outcome()];
  assert.deepEqual(answers.toSorted(), ['"http"', '"ws"']);
  ws.script = (_text, socket) => socket.terminate();
  assert.deepEqual([await under.outcome(), await under.outcome()], ['"http"', '"http"']);
  await ws.close();
});

test("close fails calls in flight, closes every connection and retries nothing", async () => {
  await using a = await startChainNode("a");
  await using b = await startChainNode("b");
  const under = await startPool([a.url, b.url]);
  await under.probed;
  a.calls = b.calls = () => {};
  const asked = [under.outcome(), under.outcome("author_submitExtrinsic")];
  await until(() => a.asked.length + b.asked.length === 2);
  await under.close();
  assert.deepEqual(await Promise.all(asked), ["unreachable", "unreachable"]);
  assert.equal(await under.outcome(), "unreachable");
  await a.deserted();
  await b.deserted();
  const received = a.received.length + b.received.length;
  under.clock.advance(600_000);
  assert.equal(a.connections + b.connections, 4);
  assert.equal(a.received.length + b.received.length, received);
});

test("credentials and paths of a url are in no label and no log line", async () => {
  const node = await startChainNode("a");
  const url = `${node.url.replace("//", "//user:secret@")}/token`;
  await using under = await startPool([url, `${url}2`]);
  await under.probed;
  await node.close();
  await under.probes(() => under.exclusionReasons().every((complaint) => complaint !== undefined));
  const host = `127.0.0.1:${node.port}`;
  assert.deepEqual(
    under.nodes().map(({ name }) => name),
    [`${host}#0`, `${host}#1`],
  );
  const all = JSON.stringify([under.lines, under.metrics.dump().map(({ values }) => values)]);
  assert.ok(under.lines.length > 0);
  assert.doesNotMatch(all, /secret|user|token/);
});

test("metrics count answers, failures by cause and calls in flight, by node", async () => {
  await using a = await startChainNode("a");
  await using under = await startPool([a.url]);
  await under.probed;
  const of = `upstream="ledger",node="127.0.0.1:${a.port}"`;
  assert.equal(under.value(`sluice_ledger_node_up{${of}}`), 1);
  await under.outcome();
  await under.outcome();
  assert.equal(under.value(`sluice_ledger_node_seconds_count{${of}}`), 2);
  a.calls = status("503 No");
  await under.outcome();
  assert.equal(under.value(`sluice_ledger_node_failures_total{${of},cause="http_503"}`), 1);
  const cause = 'upstream="ledger",cause="http_503"';
  assert.equal(under.value(`sluice_upstream_failures_total{${cause}}`), 1);
  a.calls = () => {};
  void under.outcome();
  await until(() => a.asked.length === 4);
  under.clock.advance(1_000);
  assert.equal(under.value(`sluice_ledger_node_in_flight{${of}}`), 1);
});
