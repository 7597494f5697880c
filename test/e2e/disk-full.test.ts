import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { chunkOf, eventOf, usageChunkOf } from "../plugins/inference/networks/chat-events.ts";
import { startWorker } from "../plugins/inference/networks/scripted-worker.ts";
import { usageOf } from "../plugins/inference/networks/worker-scripts.ts";
import { limitFiles, sluice, spawnGateway, withoutPrlimit } from "./gateway-process.ts";
import { startRpcNode } from "./rpc-node.ts";

const pipeline = `
version: 1
server: { host: 127.0.0.1, port: "\${PORT}" }
admin: { host: 127.0.0.1, port: "\${ADMIN_PORT}" }
store: { data: "\${DATA_DIR}" }
log: { level: silent }
plans: { enterprise: { rps: 100000, includedCu: 1000000000 } }
upstreams: { ledger: { urls: "\${LEDGER_RPC_URL}", cacheBytes: 0, singleFlight: false } }
networks: { classic: { kind: openai, url: "\${WORKER_URL}", price_per_token_nano: "12" } }
rate: "0.25"
unmatched: [request-id]
routes:
  - path: /v1/chat/completions
    methods: [POST]
    run: [request-id, authenticate, { authorize: { require: inference } }, meter]
    to: chat
  - path: /v1/ledger/rpc
    methods: [POST]
    run: [request-id, authenticate, rate-limit, { authorize: { require: "ledger:read" } }, meter]
    to: { ledger-rpc: { upstream: ledger } }
`;

const begun = eventOf(chunkOf({ role: "assistant", content: "x" }));
const ended =
  eventOf(chunkOf({}, { finishReason: "stop" })) +
  eventOf(usageChunkOf(usageOf(5, 2))) +
  eventOf("[DONE]");

test(
  "while the disk is full, a stream is cut before [DONE], calls are refused with 503 and none is served without metering; they succeed again when there is room",
  { skip: withoutPrlimit },
  async () => {
    await using node = await startRpcNode();
    await using worker = await startWorker();
    const folder = await mkdtemp(join(tmpdir(), "sluice-full-"));
    try {
      const file = join(folder, "pipeline.yaml");
      const env = {
        DATA_DIR: join(folder, "data"),
        LEDGER_RPC_URL: node.url,
        WORKER_URL: worker.url,
      };
      await writeFile(file, pipeline);
      const make = (...args: string[]): { id: string; key: string } =>
        JSON.parse(sluice([...args, "--json", "--config", file], env)) as never;
      const { id } = make("workspaces", "create", "--name", "full", "--plan", "enterprise");
      const { key } = make("keys", "create", "--workspace", id);
      const gateway = await spawnGateway(file, env);
      const served = new Set<string>();
      let asked = 0;
      const post = (path: string, body: string, more: object = {}): Promise<Response> =>
        fetch(gateway.url + path, {
          method: "POST",
          headers: {
            authorization: `Bearer ${key}`,
            "content-type": "application/json",
            ...more,
          },
          body,
        });
      const call = async (): Promise<number> => {
        const requestId = `call-${asked++}`;
        const body = '{"jsonrpc":"2.0","id":1,"method":"system_chain"}';
        const response = await post("/v1/ledger/rpc", body, { "x-request-id": requestId });
        const text = await response.text();
        if (response.status === 200) served.add(requestId);
        else {
          assert.match(text, /GATEWAY_SERVICE_UNAVAILABLE/);
          assert.equal(response.headers.get("retry-after"), "5");
        }
        return response.status;
      };
      const until = async (status: number): Promise<void> => {
        const deadline = AbortSignal.timeout(20_000);
        while ((await call()) !== status) deadline.throwIfAborted();
      };
      assert.equal(await call(), 200);
      const held = worker.hold();
      const messages = [{ role: "user", content: "Hi" }];
      const chat = JSON.stringify({ model: "Test/Model-1", messages, stream: true });
      const asking = post("/v1/chat/completions", chat);
      const exchange = await held;
      exchange.begin();
      await exchange.push(begun);
      const stream = (await asking).body ?? assert.fail();
      limitFiles(gateway.child.pid!, "0");
      await exchange.push(ended);
      exchange.end();
      let said = "";
      await assert.rejects(async () => {
        for await (const piece of stream) said += Buffer.from(piece).toString();
      });
      assert.ok(said.includes('"stop"') && !said.includes("[DONE]"), said);
      await until(503);
      const callsOfNode = (): number =>
        node.calls.filter(({ method }) => method === "system_chain").length;
      await until(503);
      const before = callsOfNode();
      assert.equal(await call(), 503);
      assert.equal(callsOfNode(), before, "what cannot be metered is not even asked");
      assert.equal((await fetch(`${gateway.url}/readyz`)).status, 503);
      limitFiles(gateway.child.pid!, "unlimited");
      await until(200);
      gateway.child.kill("SIGTERM");
      assert.deepEqual(await gateway.exited, [0, null]);
      const charged = sluice(["usage", "export", "--config", file], env)
        .trim()
        .split("\n")
        .map((line) => (JSON.parse(line) as { request_id: string }).request_id);
      assert.deepEqual(charged.toSorted(), [...served].toSorted());
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  },
);
