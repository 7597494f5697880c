import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type Socket } from "node:net";
import { join } from "node:path";
import { test } from "node:test";
import { readUsage } from "../../plugins/billing/metering/read-usage.ts";
import { startTestGateway } from "../../plugins/contracts/testing.ts";
import { ask } from "./ask.ts";

const written = (body: string, more = ""): string =>
  `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n${more}content-length: ${body.length}\r\n\r\n${body}`;

/** Behaviour of the node for calls of state_getStorage. Probes are answered correctly. */
const misbehaviours: Readonly<Record<string, (socket: Socket, id: number) => void>> = {
  "closes without a word": (socket) => socket.destroy(),
  "closes in the middle of its answer": (socket) =>
    socket.end('HTTP/1.1 200 OK\r\ncontent-length: 500\r\n\r\n{"jsonrpc":"2.0","id":1,'),
  "says nothing": () => {},
  "stops in the middle": (socket) =>
    void socket.write('HTTP/1.1 200 OK\r\ncontent-length: 500\r\n\r\n{"jsonrpc"'),
  "is no HTTP server": (socket) => void socket.write("220 mail.example ESMTP\r\n"),
  "answers a web page": (socket) => void socket.write(written("<html>secret upstream page</html>")),
  "answers JSON that is not an answer": (socket) => void socket.write(written('{"hello":"world"}')),
  "answers half of its JSON": (socket) =>
    void socket.write(written('{"jsonrpc":"2.0","id":1,"res')),
  "answers another call": (socket, id) =>
    void socket.write(written(`{"jsonrpc":"2.0","id":${id + 1000},"result":"0x00"}`)),
  "is overloaded": (socket) =>
    void socket.write("HTTP/1.1 503 Service Unavailable\r\ncontent-length: 4\r\n\r\nbusy"),
  "answers more bytes than are accepted": (socket, id) =>
    void socket.write(written(`{"jsonrpc":"2.0","id":${id},"result":"0x${"0".repeat(10_000)}"}`)),
};

const probes: Readonly<Record<string, string>> = {
  system_health: '{"peers":3,"isSyncing":false,"shouldHavePeers":true}',
  chain_getHeader: '{"number":"0x64"}',
  chain_getFinalizedHead: `"0x${"1".repeat(64)}"`,
  chain_getBlockHash: `"0x${"2".repeat(64)}"`,
  state_getRuntimeVersion: '{"specName":"test","specVersion":1}',
};

async function badNode(
  misbehave: (socket: Socket, id: number) => void,
): Promise<{ url: string } & AsyncDisposable> {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on("error", () => {});
    socket.on("data", (chunk) => {
      const body = String(chunk).split("\r\n\r\n")[1] ?? "";
      const { id, method } = JSON.parse(body) as { id: number; method: string };
      const result = probes[method];
      if (result === undefined) misbehave(socket, id);
      else socket.write(written(`{"jsonrpc":"2.0","id":${id},"result":${result}}`));
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  assert.ok(typeof address === "object" && address !== null);
  return {
    url: `http://127.0.0.1:${address.port}`,
    async [Symbol.asyncDispose]() {
      const closed = once(server, "close");
      server.close();
      for (const socket of sockets) socket.destroy();
      await closed;
    },
  };
}

const pipeline = (nodes: readonly string[]): string => `
version: 1
server: { host: 127.0.0.1, port: "\${PORT}" }
admin: { host: 127.0.0.1, port: "\${ADMIN_PORT}" }
store: { data: "\${DATA_DIR}" }
lists:
  edge: [request-id, authenticate, rate-limit, { authorize: { require: "ledger:read" } }, meter]
upstreams:
${nodes.map((url, at) => `  node${at}: { urls: "${url}", headersMs: 150, idleMs: 150, connectMs: 150, answerBytes: 4096 }`).join("\n")}
unmatched: [request-id]
routes:
${nodes.map((_, at) => `  - { path: /${at}, methods: [POST], run: [{ use: edge }], to: { ledger-rpc: { upstream: node${at} } } }`).join("\n")}
`;

test("a node that misbehaves results in -32603 with the client's id and no charge", async (t) => {
  await using stack = new AsyncDisposableStack();
  const nodes = new Map<string, string>();
  for (const [what, misbehave] of Object.entries(misbehaviours)) {
    nodes.set(what, stack.use(await badNode(misbehave)).url);
  }
  const down = await badNode(() => {});
  await down[Symbol.asyncDispose]();
  nodes.set("is down", down.url);
  const gateway = stack.use(await startTestGateway({ pipeline: pipeline([...nodes.values()]) }));
  for (const [at, what] of [...nodes.keys()].entries()) {
    await t.test(what, async () => {
      const answer = await ask(`${gateway.url}/${at}`, {
        key: gateway.key,
        body: { jsonrpc: "2.0", id: "mine", method: "state_getStorage", params: ["0x00"] },
      });
      assert.equal(answer.status, 200);
      assert.deepEqual(answer.json, {
        jsonrpc: "2.0",
        id: "mine",
        error: { code: -32603, message: "Internal Error" },
      });
      assert.equal(answer.headers["x-used-cu-milli"], "0");
    });
  }
  await gateway.gateway.stop();
  assert.deepEqual([...readUsage(join(gateway.folder, "data"), {})], []);
});
