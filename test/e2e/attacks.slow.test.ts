/**
 * Clients and a model server that make a gateway with a memory limit of 512 MiB work and hold as much as they can. It
 * stays within its limit and answers health checks within 200 ms on a machine that is not busy: the tests limit the CPU
 * time of a turn of the event loop, and `node bench/attacks.ts` prints the longest health check of all attacks.
 */
import assert from "node:assert/strict";
import { once } from "node:events";
import { test } from "node:test";
import { ask, signIn } from "../plugins/dashboard/dashboard/gateway.ts";
import { startWorker } from "../plugins/inference/networks/scripted-worker.ts";
import { ChainNode } from "../plugins/ledger/ledger/feed/chain-node.ts";
import { connectWs } from "../plugins/ledger/ledger-ws/ws-client.ts";
import { until } from "../plugins/ledger/until.ts";
import { mebibyte, startAttacked, type Attacked } from "./attacked-gateway.ts";
import { startRpcNode } from "./rpc-node.ts";

/** A storage value of 3 MB in hex. */
const largeValue = `0x${"ab".repeat(1.5 * mebibyte)}`;
const rpc = (method: string, params: unknown, id = 1): object => ({
  jsonrpc: "2.0",
  id,
  method,
  params,
});

/** Fifty reads of the large value. */
const arrayOfReads = JSON.stringify(
  Array<object>(50).fill(rpc("state_getStorage", ["0x3a636f6465", `0x${"11".repeat(32)}`])),
);

/** Returns the head of a call of the node. `bytes`: the length of its body. */
function headOf(key: string, bytes: number): string {
  return (
    `POST /v1/ledger/rpc HTTP/1.1\r\nhost: a\r\nauthorization: Bearer ${key}\r\n` +
    `content-type: application/json\r\ncontent-length: ${bytes}\r\n\r\n`
  );
}

const seconds = (count: number): Promise<void> =>
  new Promise((resolve) => setTimeout(resolve, count * 1_000));

test("no attack, for comparison", async (t) => {
  await using node = await startRpcNode();
  const attacked = await startAttacked(t, { LEDGER_RPC_URL: node.url });
  await seconds(3);
  await attacked.assertHealthy();
});

test("slow bodies get refusals", async (t) => {
  await using node = await startRpcNode();
  const attacked = await startAttacked(t, { LEDGER_RPC_URL: node.url });
  const statuses: number[] = [];
  let sent = 0;
  const part = Buffer.alloc(9 * mebibyte, " ");
  for (const key of attacked.keys) {
    for (let count = 0; count < 36; count++) {
      const socket = attacked.open();
      socket.on("data", (data) => {
        const status = /^HTTP\/1.1 (\d+)/.exec(data.toString("latin1"))?.[1];
        if (status !== undefined) statuses.push(Number(status));
      });
      socket.write(headOf(key, part.length + 1000));
      socket.write(part, () => void sent++);
    }
  }
  // A body that was refused while it arrived may lose its connection before the client has read the refusal.
  await until(() => statuses.length >= 40 && sent >= 8);
  assert.ok(
    statuses.every((status) => status === 429 || status === 503),
    statuses.join(),
  );
  await attacked.assertHealthy();
});

test("S1: unread answers of large values", async (t) => {
  await using node = await startRpcNode({ state_getStorage: () => largeValue });
  const attacked = await startAttacked(t, { LEDGER_RPC_URL: node.url });
  for (let count = 0; count < 16; count++) {
    const socket = attacked.open();
    socket.pause();
    socket.write(headOf(attacked.keys[0], arrayOfReads.length) + arrayOfReads);
  }
  await until(() => node.calls.some(({ method }) => method === "state_getStorage"));
  await seconds(3);
  await attacked.assertHealthy();
});

test("S1: unread answers of large values over WebSocket", async (t) => {
  await using node = await startRpcNode({ state_getStorage: () => largeValue });
  const attacked = await startAttacked(t, { LEDGER_RPC_URL: node.url });
  await using clients = new AsyncDisposableStack();
  for (let count = 0; count < 4; count++) {
    const { socket } = clients.use(await connectLedger(attacked, 0));
    socket.pause();
    socket.send(arrayOfReads);
  }
  await until(() => node.calls.some(({ method }) => method === "state_getStorage"));
  await seconds(3);
  await attacked.assertHealthy();
});

test("S2: one large value a hundred times in one result", async (t) => {
  const changes = [{ block: `0x${"00".repeat(32)}`, changes: [["0x00", largeValue]] }];
  await using node = await startRpcNode({ state_queryStorageAt: () => changes });
  const attacked = await startAttacked(t, { LEDGER_RPC_URL: node.url });
  const params = { keys: Array<string>(100).fill("0x00") };
  const read = rpc("tools.call", { tool: "ledger_queryStorage", params });
  const { text } = await attacked.post("/rpc", read);
  assert.match(text, /the values are too large together/);
  await attacked.assertHealthy();
});

test("S2: an array of batches of tools with large results", async (t) => {
  const changes = [{ block: `0x${"00".repeat(32)}`, changes: [["0x00", largeValue]] }];
  await using node = await startRpcNode({ state_queryStorageAt: () => changes });
  const attacked = await startAttacked(t, { LEDGER_RPC_URL: node.url });
  const params = { keys: ["0x00", "0x00"] };
  const calls = Array.from({ length: 20 }, () => ({ tool: "ledger_queryStorage", params }));
  const batch = rpc("tools/call", { name: "gateway_batch", arguments: { calls } });
  const { status, text } = await attacked.post("/mcp", Array<object>(20).fill(batch));
  assert.equal(status, 200);
  assert.match(text, /the responses are too large together/);
  await attacked.assertHealthy();
});

test("S4: handshakes with 15,000 spaces in the list of subprotocols", async (t) => {
  await using node = await startRpcNode();
  const attacked = await startAttacked(t, { LEDGER_RPC_URL: node.url });
  const handshake =
    `GET /v1/ledger/rpc HTTP/1.1\r\nhost: a\r\nauthorization: Bearer ${attacked.keys[0]}\r\n` +
    "connection: Upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n" +
    `sec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\nsec-websocket-protocol: a,${" ".repeat(15_000)}b c\r\n\r\n`;
  const closed = Array.from({ length: 300 }, () => {
    const socket = attacked.open();
    socket.end(handshake);
    socket.resume();
    return once(socket, "close");
  });
  await Promise.all(closed);
  await attacked.assertHealthy();
});

test("S6: storage subscriptions to a large value with different sets of keys", async (t) => {
  await using node = await ChainNode.start();
  node.storage.set("0xaa", JSON.stringify(largeValue.slice(0, mebibyte)));
  const attacked = await startAttacked(t, { LEDGER_RPC_URL: node.url });
  await using clients = new AsyncDisposableStack();
  // The gateway may also close the connection of a client that reads too slowly.
  const done: Promise<unknown>[] = [];
  for (let connection = 0; connection < 4; connection++) {
    const { socket, closed } = clients.use(await connectLedger(attacked, 0));
    let answers = 0;
    const answered = Promise.withResolvers<void>();
    socket.on("message", (data) => {
      // A notification has no id.
      if ((data as Buffer).includes('"id":', 0)) answers++;
      if (answers === 32) answered.resolve();
    });
    for (let at = 0; at < 32; at++) {
      const key = `0x${(connection * 32 + at).toString(16).padStart(4, "0")}`;
      socket.send(JSON.stringify(rpc("state_subscribeStorage", [["0xaa", key]], at)));
    }
    done.push(Promise.race([answered.promise, closed]));
  }
  await Promise.all(done);
  const other = clients.use(await connectLedger(attacked, 1));
  const heads = await other.ask(JSON.stringify(rpc("chain_subscribeNewHeads", [])));
  assert.match(heads, /"result":"/);
  await attacked.assertHealthy();
});

test("S7, S9: keys and reports in a loop", async (t) => {
  await using node = await startRpcNode();
  const attacked = await startAttacked(t, { LEDGER_RPC_URL: node.url });
  // The first request of the dashboard loads Fastify, which is the longest turn.
  const cookie = await signIn(attacked, attacked.keys[0]);
  const body = { name: "one more", capabilities: ["ledger:read"] };
  const keys = Array.from({ length: 100 }, () => ask(attacked, "keys", { cookie, body }));
  const reports = Array.from({ length: 64 }, (_, at) => {
    const day = String(1 + (at % 28)).padStart(2, "0");
    const month = String(1 + Math.floor(at / 28)).padStart(2, "0");
    return ask(attacked, `spend?from=2026-${month}-${day}&to=2026-12-01&by=key`, { cookie });
  });
  const statuses = (await Promise.all([...keys, ...reports])).map(({ status }) => status);
  assert.ok(statuses.includes(429), statuses.join());
  await attacked.assertHealthy();
});

test("S8: an event of a million lines without text", async (t) => {
  const lines = Buffer.from("data:\n".repeat(1_000_000));
  await using worker = await startWorker({
    otherwise: async (exchange) => {
      exchange.begin();
      if ((await exchange.push(lines)) === "taken") exchange.end();
    },
  });
  const attacked = await startAttacked(t, { CONFIDENTIAL_CLASSIC_URL: worker.url });
  const messages = [{ role: "user", content: "Hello" }];
  const chat = { model: "Test/Model-1", stream: true, messages };
  const answers = await Promise.all(
    Array.from({ length: 4 }, () => attacked.post("/v1/chat/completions", chat)),
  );
  for (const { text } of answers) assert.match(text, /"UPSTREAM_ERROR"/);
  await attacked.assertHealthy();
});

/** Connects to the node proxy. `at`: which key. */
function connectLedger({ url, keys }: Attacked, at: 0 | 1) {
  return connectWs(`${url}/v1/ledger/rpc`, { key: keys[at] });
}
