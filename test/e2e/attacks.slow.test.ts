/**
 * Clients and a model server that make a gateway with 512 MiB work and hold as much as they can. It stays within its
 * limit and answers health checks within 200 ms on a quiet machine: the tests limit the CPU time of a turn of the event
 * loop. `node bench/attacks.ts` prints the figures of each attack.
 */
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import { test } from "node:test";
import { gzipSync } from "node:zlib";
import { ask, signIn } from "../plugins/dashboard/dashboard/gateway.ts";
import { startWorker, type Script } from "../plugins/inference/networks/scripted-worker.ts";
import { raw } from "../plugins/inference/networks/worker-scripts.ts";
import { ChainNode } from "../plugins/ledger/ledger/feed/chain-node.ts";
import { connectWs } from "../plugins/ledger/ledger-ws/ws-client.ts";
import { until } from "../plugins/ledger/until.ts";
import { mebibyte, startAttacked, type Attacked } from "./attacked-gateway.ts";
import { closed, listening, startRpcNode } from "./rpc-node.ts";

/** A storage value of 3 MB in hex. */
const largeValue = `0x${"ab".repeat(1.5 * mebibyte)}`;
const rpc = (method: string, params: unknown, id = 1): object => ({
  jsonrpc: "2.0",
  id,
  method,
  params,
});

/** Fifty reads of the large value. `at`: a byte of the hash of the block. */
const arrayOfReads = (at: string): string =>
  JSON.stringify(
    Array<object>(50).fill(rpc("state_getStorage", ["0x3a636f6465", `0x${at.repeat(32)}`])),
  );

function headOf(key: string, bytes: number): string {
  return (
    `POST /v1/ledger/rpc HTTP/1.1\r\nhost: a\r\nauthorization: Bearer ${key}\r\n` +
    `content-type: application/json\r\ncontent-length: ${bytes}\r\n\r\n`
  );
}

const seconds = (count: number): Promise<void> =>
  new Promise((resolve) => setTimeout(resolve, count * 1_000));

const coded = { "content-encoding": "gzip", "content-type": "application/json" };
const chat = { model: "Test/Model-1", messages: [{ role: "user", content: "Hello" }] };

/** Returns data that decompress to this text, repeated to `members` times 64 MiB, and are a thousandth as long. */
function bombOf(text: string, members: number): Buffer {
  const member = gzipSync(text.repeat(Math.floor((64 * mebibyte) / text.length)), { level: 9 });
  return Buffer.concat(Array<Buffer>(members).fill(member));
}

const spaces = bombOf(" ", 64);
/** Events without a choice. They are read to their end, because keeping a connection alive is their purpose. */
const events = bombOf("data: {}\n\n", 2);

const bombs: Readonly<Record<string, Script>> = {
  "in one piece": raw(200, coded, [spaces]),
  "as a refusal": raw(400, coded, [spaces]),
  "as one line of a stream": raw(200, { ...coded, "content-type": "text/event-stream" }, [spaces]),
  "as events": raw(200, { ...coded, "content-type": "text/event-stream" }, [events]),
};

test("a gateway withstands its clients and a model server", async (whole) => {
  const changes = [{ block: `0x${"00".repeat(32)}`, changes: [["0x00", largeValue]] }];
  await using node = await startRpcNode({
    state_getStorage: () => largeValue,
    state_queryStorageAt: () => changes,
  });
  let script: Script = () => {};
  await using worker = await startWorker({ otherwise: (exchange) => script(exchange) });
  const env = { LEDGER_RPC_URL: node.url, CONFIDENTIAL_CLASSIC_URL: worker.url };
  const attacked = await startAttacked(whole, env);

  const reads = (): number =>
    node.calls.filter(({ method }) => method === "state_getStorage").length;

  await whole.test("slow bodies get refusals", async (t) => {
    const statuses: number[] = [];
    let sent = 0;
    const part = Buffer.alloc(9 * mebibyte, " ");
    for (const key of attacked.keys) {
      for (let count = 0; count < 36; count++) {
        const socket = attacked.open(t);
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
    await attacked.assertHealthy(t);
  });

  await whole.test("S1: unread answers of large values", async (t) => {
    for (let count = 0; count < 16; count++) {
      const socket = attacked.open(t);
      socket.pause();
      const body = arrayOfReads("11");
      socket.write(headOf(attacked.keys[0], body.length) + body);
    }
    await until(() => reads() > 0);
    await seconds(3);
    await attacked.assertHealthy(t);
  });

  await whole.test("S1: unread answers of large values over WebSocket", async (t) => {
    await using clients = new AsyncDisposableStack();
    const before = reads();
    for (let count = 0; count < 4; count++) {
      const { socket } = clients.use(await connectLedger(attacked, 0));
      socket.pause();
      socket.send(arrayOfReads("22"));
    }
    await until(() => reads() > before);
    await seconds(3);
    await attacked.assertHealthy(t);
  });

  await whole.test("S2: one large value a hundred times in one result", async (t) => {
    const params = { keys: Array<string>(100).fill("0x00") };
    const read = rpc("tools.call", { tool: "ledger_queryStorage", params });
    const { text } = await attacked.post("/rpc", read);
    assert.match(text, /the values are too large together/);
    await attacked.assertHealthy(t);
  });

  await whole.test("S2: an array of batches of tools with large results", async (t) => {
    const params = { keys: ["0x00", "0x00"] };
    const calls = Array.from({ length: 20 }, () => ({ tool: "ledger_queryStorage", params }));
    const batch = rpc("tools/call", { name: "gateway_batch", arguments: { calls } });
    const { status, text } = await attacked.post("/mcp", Array<object>(20).fill(batch));
    assert.equal(status, 200);
    assert.match(text, /the responses are too large together/);
    await attacked.assertHealthy(t);
  });

  await whole.test("S8: an event of a million lines without text", async (t) => {
    const lines = Buffer.from("data:\n".repeat(1_000_000));
    script = async (exchange) => {
      exchange.begin();
      if ((await exchange.push(lines)) === "taken") exchange.end();
    };
    const answers = await Promise.all(
      Array.from({ length: 4 }, () =>
        attacked.post("/v1/chat/completions", { ...chat, stream: true }),
      ),
    );
    for (const { text } of answers) assert.match(text, /"UPSTREAM_ERROR"/);
    await attacked.assertHealthy(t);
  });

  await whole.test("bodies of requests are not decompressed", async (t) => {
    const body = bombOf(" ", 8);
    const headers = { ...coded, authorization: `Bearer ${attacked.keys[0]}` };
    for (const path of ["/v1/ledger/rpc", "/rpc", "/mcp", "/v1/chat/completions", "/v1/messages"]) {
      const sent = Array.from({ length: 4 }, async () => {
        const response = await fetch(attacked.url + path, { method: "POST", headers, body });
        return [response.status, await response.text()] as const;
      });
      for (const [status, text] of await Promise.all(sent)) {
        // JSON-RPC answers with an error and the status 200.
        assert.ok(status >= 400 || text.includes('"error"'), `${path}: ${status} ${text}`);
      }
    }
    await attacked.assertHealthy(t);
  });

  for (const [title, bomb] of Object.entries(bombs)) {
    await whole.test(`a compressed answer of a model server ${title}`, async (t) => {
      script = bomb;
      const before = worker.received.length;
      const stream = title.includes("stream") || title.includes("events");
      const asked = Array.from({ length: 4 }, () =>
        attacked.post("/v1/chat/completions", { ...chat, stream }),
      );
      for (const { text } of await Promise.all(asked)) assert.match(text, /"error"/);
      assert.ok(worker.received.length > before);
      await attacked.assertHealthy(t);
    });
  }

  await whole.test("S7, S9: keys and reports in a loop", async (t) => {
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
    await attacked.assertHealthy(t);
  });

  await whole.test("S4: handshakes with 15,000 spaces in the list of subprotocols", async (t) => {
    const handshake =
      `GET /v1/ledger/rpc HTTP/1.1\r\nhost: a\r\nauthorization: Bearer ${attacked.keys[0]}\r\n` +
      "connection: Upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n" +
      `sec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\nsec-websocket-protocol: a,${" ".repeat(15_000)}b c\r\n\r\n`;
    const ended = Array.from({ length: 300 }, () => {
      const socket = attacked.open(t);
      socket.end(handshake);
      socket.resume();
      return once(socket, "close");
    });
    await Promise.all(ended);
    await attacked.assertHealthy(t);
  });

  await attacked.assertAnswered();
});

test("S6: storage subscriptions to a large value with different sets of keys", async (t) => {
  await using node = await ChainNode.start();
  node.storage.set("0xaa", JSON.stringify(largeValue.slice(0, mebibyte)));
  const attacked = await startAttacked(t, { LEDGER_RPC_URL: node.url });
  await using clients = new AsyncDisposableStack();
  // The gateway may also close the connection of a client that reads too slowly.
  const done: Promise<unknown>[] = [];
  for (let connection = 0; connection < 4; connection++) {
    const { socket, closed: left } = clients.use(await connectLedger(attacked, 0));
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
    done.push(Promise.race([answered.promise, left]));
  }
  await Promise.all(done);
  const other = clients.use(await connectLedger(attacked, 1));
  const heads = await other.ask(JSON.stringify(rpc("chain_subscribeNewHeads", [])));
  assert.match(heads, /"result":"/);
  await attacked.assertHealthy(t);
  await attacked.assertAnswered();
});

test("a compressed list of models and compressed answers of a node", async (t) => {
  let asked = 0;
  const server = createServer((req, res) => {
    asked++;
    req.resume();
    res.writeHead(200, coded).end(spaces);
  });
  const url = await listening(server);
  t.after(() => closed(server));
  const env = { LEDGER_RPC_URL: url, CONFIDENTIAL_CLASSIC_URL: url };
  const attacked = await startAttacked(t, env);
  const body = rpc("system_chain", []);
  const answered = Array.from({ length: 8 }, () => attacked.post("/v1/ledger/rpc", body));
  for (const { text } of await Promise.all(answered)) assert.match(text, /"error"/);
  await until(() => asked >= 6);
  await attacked.assertHealthy(t);
  await attacked.assertAnswered();
});

function connectLedger({ url, keys }: Attacked, at: 0 | 1) {
  return connectWs(`${url}/v1/ledger/rpc`, { key: keys[at] });
}
