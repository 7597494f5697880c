/** Networks of a whole gateway: what /readyz reports about them, and what a reload keeps of them. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { startTestGateway, type TestGateway } from "../../src/testing/gateway.ts";
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

interface Readiness {
  readonly status: number;
  readonly networks: Readonly<Record<string, string>>;
}

async function readiness({ url }: TestGateway): Promise<Readiness> {
  const response = await fetch(`${url}/readyz`);
  // The shape of the admin port's own answer.
  const { checks } = (await response.json()) as { checks: Record<string, string> };
  const networks = Object.entries(checks).filter(([name]) => name.startsWith("network "));
  return { status: response.status, networks: Object.fromEntries(networks) };
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

test("readiness lists every network, and whether it has a usable worker", inTime, async () => {
  await using good = await startWorker();
  await using bad = await startWorker({ models: [] });
  const both = pipeline({ good: good.url, bad: bad.url });
  await using gateway = await startTestGateway({ pipeline: both });
  const { networks } = await readiness(gateway);
  assert.deepEqual(networks, { "network good": "ok", "network bad": "no usable worker" });
  await reload(gateway, pipeline({ good: good.url }));
  assert.deepEqual(await readiness(gateway), { status: 200, networks: { "network good": "ok" } });
  await reload(gateway, pipeline({ bad: bad.url }));
  assert.deepEqual(await readiness(gateway), {
    status: 503,
    networks: { "network bad": "no usable worker" },
  });
});

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

test(
  "a stream continues through a reload that removes its network, and is charged at its end",
  inTime,
  async () => {
    await using worker = await startWorker();
    await using other = await startWorker({ models: ["other"] });
    const before = pipeline({ a: worker.url });
    await using gateway = await startTestGateway({ pipeline: before });
    const held = worker.hold();
    const asking = fetch(`${gateway.url}/v1/chat/completions`, {
      method: "POST",
      headers: { authorization: `Bearer ${gateway.key}`, "content-type": "application/json" },
      body: JSON.stringify({
        model: "Test/Model-1",
        messages: [{ role: "user", content: "hi" }],
        stream: true,
      }),
    });
    const exchange = await held;
    const choices = [{ index: 0, delta: { content: "a" }, finish_reason: null }];
    exchange.begin();
    await exchange.push(`data: ${JSON.stringify({ choices })}\n\n`);
    const answer = await asking;
    await reload(gateway, pipeline({ a: other.url }));
    assert.deepEqual(await listedBy(gateway), ["other"]);
    await exchange.push("data: [DONE]\n\n");
    exchange.end();
    assert.match(await answer.text(), /"content":"a".*\n\ndata: \[DONE\]\n\n$/s);
  },
);
