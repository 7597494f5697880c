/**
 * Compressed data that becomes gigabytes, from clients, nodes and model servers. A gateway with a memory limit of
 * 512 MiB refuses it. See attacks.slow.test.ts.
 */
import assert from "node:assert/strict";
import { createServer, type ServerResponse } from "node:http";
import { test, type TestContext } from "node:test";
import { gzipSync } from "node:zlib";
import { startWorker, type Script } from "../plugins/inference/networks/scripted-worker.ts";
import { raw } from "../plugins/inference/networks/worker-scripts.ts";
import { until } from "../plugins/ledger/until.ts";
import { mebibyte, startAttacked } from "./attacked-gateway.ts";
import { closed, listening, startRpcNode } from "./rpc-node.ts";

const coded = { "content-encoding": "gzip", "content-type": "application/json" };
const chat = { model: "Test/Model-1", messages: [{ role: "user", content: "Hello" }] };

/** Returns data that decompress to this text, repeated to `members` times 64 MiB, and are a thousandth as long. */
function bombOf(text: string, members: number): Buffer {
  const member = gzipSync(text.repeat(Math.floor((64 * mebibyte) / text.length)), { level: 9 });
  return Buffer.concat(Array<Buffer>(members).fill(member));
}

test("bodies of requests are not decompressed", async (t) => {
  await using node = await startRpcNode();
  await using worker = await startWorker();
  const env = { LEDGER_RPC_URL: node.url, CONFIDENTIAL_CLASSIC_URL: worker.url };
  const attacked = await startAttacked(t, env);
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
  await attacked.assertHealthy();
});

const spaces = bombOf(" ", 64);
/** Events without a choice. They are read to their end, because keeping a connection alive is their purpose. */
const events = bombOf("data: {}\n\n", 2);

const answers: Readonly<Record<string, Script>> = {
  "in one piece": raw(200, coded, [spaces]),
  "as a refusal": raw(400, coded, [spaces]),
  "as one line of a stream": raw(200, { ...coded, "content-type": "text/event-stream" }, [spaces]),
  "as events": raw(200, { ...coded, "content-type": "text/event-stream" }, [events]),
};
for (const [title, otherwise] of Object.entries(answers)) {
  test(`an answer of a model server ${title}`, async (t) => {
    await using worker = await startWorker({ otherwise });
    const attacked = await startAttacked(t, { CONFIDENTIAL_CLASSIC_URL: worker.url });
    const stream = title.includes("stream") || title.includes("events");
    const asked = Array.from({ length: 4 }, () =>
      attacked.post("/v1/chat/completions", { ...chat, stream }),
    );
    for (const { text } of await Promise.all(asked)) assert.match(text, /"error"/);
    await attacked.assertHealthy();
  });
}

test("a list of models", async (t) => {
  let asked = 0;
  const url = await bombServer(t, () => asked++);
  const attacked = await startAttacked(t, { CONFIDENTIAL_CLASSIC_URL: url });
  await until(() => asked >= 3);
  await attacked.assertHealthy();
});

test("answers of a node", async (t) => {
  let asked = 0;
  const url = await bombServer(t, () => asked++);
  const attacked = await startAttacked(t, { LEDGER_RPC_URL: url });
  const call = { jsonrpc: "2.0", id: 1, method: "system_chain" };
  const answered = Array.from({ length: 8 }, () => attacked.post("/v1/ledger/rpc", call));
  for (const { text } of await Promise.all(answered)) assert.match(text, /"error"/);
  await until(() => asked >= 3);
  await attacked.assertHealthy();
});

/** Starts a server that answers everything with spaces. */
async function bombServer(t: TestContext, onAsked: () => void): Promise<string> {
  const server = createServer((req, res: ServerResponse) => {
    onAsked();
    req.resume();
    res.writeHead(200, coded).end(spaces);
  });
  const url = await listening(server);
  t.after(() => closed(server));
  return url;
}
