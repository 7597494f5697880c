/** A worker and a whole gateway: chat completions by an enclave, and quotes of the gateway's own platform. */
import assert from "node:assert/strict";
import { describe, test, type TestContext } from "node:test";
import { startTestGateway, type TestGateway } from "../../../../plugins/contracts/testing.ts";
import { params, startTestWorker, type TestWorker } from "./fixture.ts";

const inTime = { timeout: 30_000 };

function pipelineFor(worker: TestWorker, policy: string): string {
  return `
version: 1
server: { port: "\${PORT}" }
admin: { port: "\${ADMIN_PORT}" }
store: { data: "\${DATA_DIR}" }
tools: [{ platform-tools: { evidence: { kind: simulated } } }]
networks:
  confidential-alpha:
    kind: enclave
    url: "${worker.url}"
    headers: { Authorization: "Bearer worker-token" }
    evidence: ${policy}
unmatched: [request-id]
routes:
  - { path: /v1/models, methods: [GET], run: [request-id, authenticate], to: models }
  - { path: /rpc, methods: [POST], run: [request-id, authenticate, meter], to: tool-rpc }
  - path: /v1/chat/completions
    methods: [POST]
    run: [request-id, authenticate, { authorize: { require: inference } }, meter]
    to: chat
`;
}

/** `images`: the image hashes that the gateway accepts. */
async function startBoth(
  t: TestContext,
  images: (worker: TestWorker) => string,
): Promise<{ readonly gateway: TestGateway; readonly worker: TestWorker }> {
  const worker = await startTestWorker(t, { token: "worker-token" });
  const roots = `roots: ["${worker.simulatedRoot}"]`;
  const policy = `{ kind: simulated, ${roots}, image_hashes: ${images(worker)} }`;
  const gateway = await startTestGateway({ pipeline: pipelineFor(worker, policy) });
  t.after(() => gateway[Symbol.asyncDispose]());
  return { gateway, worker };
}

function post({ url, key }: TestGateway, path: string, body: object): Promise<Response> {
  const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
  return fetch(url + path, { method: "POST", headers, body: JSON.stringify(body) });
}

describe("a worker of a gateway", () => {
  test("gets no requests if the gateway does not accept its image", inTime, async (t) => {
    const { gateway } = await startBoth(t, () => `["${"ab".repeat(32)}"]`);
    const refused = await post(gateway, "/v1/chat/completions", params);
    assert.equal(refused.status, 503);
  });

  test("runs beside the gateway's own quotes, which are marked as simulated", inTime, async (t) => {
    const { gateway } = await startBoth(t, () => "any");
    const call = async (input: object): Promise<string> => {
      const asked = { tool: "platform_getAttestationQuote", params: input };
      const body = { jsonrpc: "2.0", id: 1, method: "tools.call", params: asked };
      return (await post(gateway, "/rpc", body)).text();
    };
    const quote = await call({ report_data: "ab".repeat(64) });
    assert.match(quote, /"simulated":true/);
    assert.match(quote, new RegExp(`"reportData":"${"ab".repeat(64)}"`));
    const reserved = Buffer.from("CSTRM1RD").toString("hex").padEnd(128, "0");
    assert.match(await call({ report_data: reserved }), /GATEWAY_INVALID_PARAMS/);
  });
});
