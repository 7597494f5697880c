/** A gateway whose disk is full serves nothing that it cannot charge, and works again when there is room. */
import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { readUsage } from "../../plugins/billing/metering/read-usage.ts";
import { startEnclaveWorker } from "../plugins/confidential/confidential-relay/enclave-worker.ts";
import {
  openStream,
  openWire,
  type OpenStream,
} from "../plugins/confidential/confidential-relay/stream-client.ts";
import { chunkOf, eventOf, usageChunkOf } from "../plugins/inference/networks/chat-events.ts";
import { startWorker } from "../plugins/inference/networks/scripted-worker.ts";
import { usageOf } from "../plugins/inference/networks/worker-scripts.ts";
import { temporaryFolder } from "../store/folder.ts";
import { ask } from "./ask.ts";
import { limitFiles, makeKey, spawnGateway, withoutPrlimit } from "./gateway-process.ts";
import { startRpcNode } from "./rpc-node.ts";

const pipeline = `
version: 1
server: { host: 127.0.0.1, port: "\${PORT}" }
admin: { host: 127.0.0.1, port: "\${ADMIN_PORT}" }
store: { data: "\${DATA_DIR}" }
log: { level: silent }
plans: { enterprise: { rps: 100000, includedCu: 1000000000 } }
upstreams: { ledger: { urls: "\${LEDGER_RPC_URL}", cacheBytes: 0, singleFlight: false } }
networks:
  classic: { kind: openai, url: "\${WORKER_URL}", price_per_token_nano: "12" }
  alpha: { kind: enclave, url: "\${ENCLAVE_URL}", status: { every: 100ms }, evidence: { kind: simulated, roots: ["\${ROOT}"] } }
rate: "0.25"
lists:
  inference: [request-id, authenticate, { authorize: { require: inference } }, meter]
unmatched: [request-id]
routes:
  - { path: /v1/chat/completions, methods: [POST], run: [{ use: inference }], to: chat }
  - path: /v1/ledger/rpc
    methods: [POST]
    run: [request-id, authenticate, rate-limit, { authorize: { require: "ledger:read" } }, meter]
    to: { ledger-rpc: { upstream: ledger } }
  - path: /v1/confidential/stream
    websocket: true
    run: [{ use: inference }]
    to: { confidential-stream: { origins: [] } }
`;

const begun = eventOf(chunkOf({ role: "assistant", content: "x" }));
const ended =
  eventOf(chunkOf({}, { finishReason: "stop" })) +
  eventOf(usageChunkOf(usageOf(5, 2))) +
  eventOf("[DONE]");
const chat = {
  model: "Test/Model-1",
  messages: [{ role: "user", content: "Hi" }],
  stream: true,
};

/** Makes one request. Undefined if it was answered and billed. */
async function askSession(session: OpenStream): Promise<unknown> {
  session.ask();
  for (;;) {
    const message = await session.next();
    if ("binary" in message) continue;
    // Every text frame is a JSON object.
    const { type, code } = JSON.parse(message.text) as { type: string; code: string };
    return type === "done" ? undefined : [code, await session.closed];
  }
}

test(
  "while the disk is full, a stream is cut before [DONE], calls are refused with 503 and none is served without metering, and encrypted requests are not forwarded; all succeed again when there is room",
  { skip: withoutPrlimit },
  async (t) => {
    await using node = await startRpcNode();
    await using worker = await startWorker();
    await using enclave = await startEnclaveWorker();
    const folder = temporaryFolder(t);
    const file = join(folder, "pipeline.yaml");
    const data = join(folder, "data");
    await writeFile(file, pipeline);
    const { key } = await makeKey(data);
    const gateway = await spawnGateway(file, {
      DATA_DIR: data,
      LEDGER_RPC_URL: node.url,
      WORKER_URL: worker.url,
      ENCLAVE_URL: enclave.url,
      ROOT: enclave.root,
    });
    t.after(() => gateway.child.kill("SIGKILL"));
    const { url, child, exited } = gateway;

    const served = new Set<string>();
    let asked = 0;
    const call = async (): Promise<number> => {
      const requestId = `call-${asked++}`;
      const { status, headers, text } = await ask(`${url}/v1/ledger/rpc`, {
        key,
        headers: { "x-request-id": requestId },
        body: { jsonrpc: "2.0", id: 1, method: "system_chain" },
      });
      if (status === 200) served.add(requestId);
      else {
        assert.match(text, /GATEWAY_SERVICE_UNAVAILABLE/);
        assert.equal(headers["retry-after"], "5");
      }
      return status;
    };
    const until = async (status: number): Promise<void> => {
      const deadline = AbortSignal.timeout(60_000);
      while ((await call()) !== status) deadline.throwIfAborted();
    };
    const open = async (): Promise<OpenStream> => {
      const headers = { authorization: `Bearer ${key}` };
      return openStream(await openWire(`${url}/v1/confidential/stream`, { headers }));
    };
    let billed = 0;
    const isBilled = (result: unknown): boolean => {
      if (result === undefined) billed++;
      return result === undefined;
    };

    assert.equal(await call(), 200);
    // Each session makes one request. While the disk is full, no new session can be opened.
    const sessions: OpenStream[] = [];
    const opening = AbortSignal.timeout(120_000);
    while (sessions.length < 20) {
      opening.throwIfAborted();
      const session = await open().catch((error: unknown) => {
        // A busy machine may not reach the worker in time.
        if (!/MODEL_NOT_AVAILABLE|4408/.test(String(error))) throw error;
      });
      if (session !== undefined) sessions.push(session);
    }
    const askNext = (): Promise<unknown> => askSession(sessions.pop()!);
    assert.ok(isBilled(await askNext()));
    const held = worker.hold();
    const asking = fetch(`${url}/v1/chat/completions`, {
      method: "POST",
      headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
      body: JSON.stringify(chat),
    });
    const exchange = await held;
    exchange.begin();
    await exchange.push(begun);
    const stream = (await asking).body ?? assert.fail();

    limitFiles(child.pid!, "0");
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
    const before = callsOfNode();
    assert.equal(await call(), 503);
    assert.equal(callsOfNode(), before, "what cannot be metered is not even asked");
    assert.equal((await ask(`${url}/readyz`)).status, 503);
    const refused = ["UPSTREAM_FAILED", 1011];
    // The first requests may still find room in an existing file.
    let result = await askNext();
    while (isBilled(result) && sessions.length > 1) result = await askNext();
    assert.deepEqual(result, refused);
    const forwarded = enclave.requests.length;
    assert.deepEqual(await askNext(), refused);
    assert.equal(enclave.requests.length, forwarded, "what cannot be charged is not even asked");
    // The id of a new session cannot be stored.
    await assert.rejects(open(), /ATTESTATION_UNAVAILABLE/);
    for (const session of sessions) session[Symbol.dispose]();

    limitFiles(child.pid!, "unlimited");
    await until(200);
    const deadline = AbortSignal.timeout(60_000);
    for (;;) {
      deadline.throwIfAborted();
      using session = await open().catch(() => undefined);
      if (session !== undefined && isBilled(await askSession(session))) break;
    }
    child.kill("SIGTERM");
    assert.deepEqual(await exited, [0, null]);
    const charges = [...readUsage(data)];
    const ofSessions = charges.filter(({ surface }) => surface === "confidential-stream");
    assert.ok(ofSessions.length >= billed && billed >= 2, `${ofSessions.length} of ${billed}`);
    const others = charges.filter((row) => !ofSessions.includes(row));
    assert.deepEqual(others.map(({ requestId }) => requestId).toSorted(), [...served].toSorted());
  },
);
