/** Networks of a whole gateway: what /readyz reports about them, and what a reload keeps of them. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { startTestGateway, type TestGateway } from "../../plugins/contracts/testing.ts";
import { startWorker } from "../plugins/inference/networks/scripted-worker.ts";

const inTime = { timeout: 20_000 };

function pipeline(networks: Readonly<Record<string, string>>, path = "/v1/models"): string {
  const lines = Object.entries(networks).map(
    ([name, url]) => `  ${name}: { kind: openai, url: "${url}", status: { every: 12h } }`,
  );
  return `
version: 1
server: { port: "\${PORT}" }
admin: { port: "\${ADMIN_PORT}" }
store: { data: "\${DATA_DIR}" }
networks:
${lines.join("\n")}
unmatched: [request-id]
routes:
  - { path: ${path}, methods: [GET], run: [request-id, authenticate], to: models }
  - path: /v1/chat/completions
    methods: [POST]
    run: [request-id, authenticate, { authorize: { require: inference } }, meter]
    to: chat
`;
}

async function listedBy({ url, key }: TestGateway, path = "/v1/models"): Promise<string[]> {
  const response = await fetch(url + path, { headers: { authorization: `Bearer ${key}` } });
  // The shape of OpenAI's list.
  const { data } = (await response.json()) as { data: readonly { id: string }[] };
  return data.map(({ id }) => id);
}

async function reload(gateway: TestGateway, text: string): Promise<void> {
  await gateway.write(text);
  assert.deepEqual(await gateway.gateway.reloader.reload("test"), []);
}

test("a reload keeps a network that did not change, and opens those that did", inTime, async () => {
  await using kept = await startWorker({ models: ["kept"] });
  await using old = await startWorker({ models: ["old"] });
  await using young = await startWorker({ models: ["young"] });
  const before = pipeline({ a: kept.url, b: old.url });
  await using gateway = await startTestGateway({ pipeline: before });
  assert.deepEqual(await listedBy(gateway), ["kept", "old"]);
  // If it were opened again, it would request this list again.
  kept.documents.set("/v1/models", 503);
  await reload(gateway, pipeline({ a: kept.url, b: young.url }, "/models"));
  assert.deepEqual(await listedBy(gateway, "/models"), ["kept", "young"]);
  assert.deepEqual([kept.reads.length, old.reads.length, young.reads.length], [1, 1, 1]);
});
