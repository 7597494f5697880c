/** The span of a chat completion as a collector receives it, and the trace as the worker receives it. */
import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import { startTestGateway, type TestGateway } from "../../../../plugins/contracts/testing.ts";
import {
  cutImmediately,
  failing,
  streamed,
  usageOf,
  whole,
} from "../../inference/networks/worker-scripts.ts";
import { startWorker, type Worker } from "../../inference/networks/scripted-worker.ts";
import { environment, one, openReceiver, type ReceivedSpan } from "./otlp-receiver.ts";

const model = "Test/Model-1";
const name = `chat ${model}`;
const traceId = "4bf92f3577b34da6a3ce929d0e0e4736";
const traceparent = `00-${traceId}-00f067aa0ba902b7-01`;

const pipeline = `
version: 1
server: { host: 127.0.0.1, port: "\${PORT}", drainDelaySeconds: 0 }
admin: { host: 127.0.0.1, port: "\${ADMIN_PORT}" }
store: { data: "\${DATA_DIR}" }
rate: "0.25"
networks:
  classic: { kind: openai, url: "\${WORKER_URL}", price_per_token_nano: "12" }
routes:
  - path: /v1/chat/completions
    methods: [POST]
    run: [trace, authenticate, { authorize: { require: inference } }, meter]
    to: chat
`;

interface Scene {
  readonly gateway: TestGateway;
  readonly worker: Worker;
  readonly ask: (members?: object, signal?: AbortSignal) => Promise<Response>;
}

async function traced(
  t: TestContext,
  act: (scene: Scene) => Promise<void>,
): Promise<readonly ReceivedSpan[]> {
  await using receiver = await openReceiver();
  await using worker = await startWorker();
  environment(t, { OTEL_EXPORTER_OTLP_ENDPOINT: receiver.url });
  {
    await using gateway = await startTestGateway({ pipeline, env: { WORKER_URL: worker.url } });
    const ask = (members: object = {}, signal?: AbortSignal): Promise<Response> =>
      fetch(`${gateway.url}/v1/chat/completions`, {
        method: "POST",
        headers: {
          authorization: `Bearer ${gateway.key}`,
          "content-type": "application/json",
          traceparent,
          tracestate: "rojo=1",
        },
        body: JSON.stringify({
          model,
          messages: [{ role: "user", content: "a secret prompt" }],
          ...members,
        }),
        ...(signal !== undefined && { signal }),
      });
    await act({ gateway, worker, ask });
  }
  return receiver.spans;
}

test("a complete answer has a span according to the conventions, and its worker gets the trace context", async (t) => {
  let id = "";
  let headers: Worker["received"][number]["headers"] = {};
  const spans = await traced(t, async ({ worker, ask }) => {
    worker.script(whole({ usage: usageOf(7, 5) }));
    const response = await ask({ max_tokens: 100 });
    assert.equal(response.status, 200);
    // gateway.md: a completion has an id.
    ({ id } = (await response.json()) as { id: string });
    headers = worker.received[0]?.headers ?? {};
  });
  const server = one(spans, "POST /v1/chat/completions");
  const span = one(spans, name);
  assert.deepEqual(
    [span.traceId, span.parentSpanId, span.kind, span.status],
    [traceId, server.spanId, 3, 0],
  );
  assert.equal(headers["traceparent"], `00-${traceId}-${span.spanId}-01`);
  assert.equal(headers["tracestate"], "rojo=1");
  const { "sluice.worker": worker, ...attributes } = span.attributes;
  assert.equal(typeof worker, "string");
  assert.deepEqual(attributes, {
    "gen_ai.operation.name": "chat",
    "gen_ai.provider.name": "openai",
    "gen_ai.request.model": model,
    "gen_ai.request.max_tokens": 100,
    "gen_ai.response.id": id,
    "gen_ai.response.model": model,
    "gen_ai.response.finish_reasons": ["stop"],
    "gen_ai.usage.input_tokens": 7,
    "gen_ai.usage.output_tokens": 5,
    "sluice.network": "classic",
    // 12 tokens × 12 nano × 0.25 USD, in milli-CU.
    "sluice.cu.used_milli": 36,
  });
  assert.equal(server.attributes["sluice.cu.used_milli"], 36);
  const text = JSON.stringify(spans, (_, v: unknown) => (typeof v === "bigint" ? String(v) : v));
  assert.ok(!text.includes("secret prompt"));
});

test("a streamed completion is marked as such, with the time of its first chunk", async (t) => {
  const spans = await traced(t, async ({ worker, ask }) => {
    worker.script(streamed());
    assert.match(await (await ask({ stream: true })).text(), /data: \[DONE\]/);
  });
  const { attributes, status, start, end } = one(spans, name);
  assert.equal(status, 0);
  assert.equal(attributes["gen_ai.request.stream"], true);
  const first = Number(attributes["gen_ai.response.time_to_first_chunk"]);
  assert.ok(first > 0 && first <= Number(end - start) / 1e9, String(first));
  assert.deepEqual(attributes["gen_ai.response.finish_reasons"], ["stop"]);
});

test("a completion that no worker can serve ends its span with the reason, without usage", async (t) => {
  const spans = await traced(t, async ({ worker, ask }) => {
    worker.script(failing(400), cutImmediately, cutImmediately, cutImmediately);
    assert.equal((await ask()).status, 400);
    assert.equal((await ask()).status, 503);
  });
  const summary = spans
    .filter((span) => span.name === name)
    .map(({ status, attributes }) => [status, attributes["error.type"]]);
  assert.deepEqual(summary, [
    [2, "rejected"],
    [2, "unavailable"],
  ]);
  assert.ok(spans.every(({ attributes }) => !("gen_ai.usage.input_tokens" in attributes)));
});

test("an interrupted stream ends its span as broken, with the received tokens", async (t) => {
  const spans = await traced(t, async ({ worker, ask }) => {
    const held = worker.hold();
    const asked = ask({ stream: true });
    const exchange = await held;
    exchange.begin();
    await exchange.push('data: {"choices":[{"index":0,"delta":{"content":"a"}}]}\n\n');
    const response = await asked;
    exchange.cut();
    await response.text().catch(() => {});
  });
  const { attributes, status } = one(spans, name);
  assert.deepEqual([status, attributes["error.type"]], [2, "broken"]);
  assert.deepEqual(attributes["gen_ai.response.finish_reasons"], ["error"]);
  assert.equal(attributes["sluice.usage.estimated"], true);
});

test("a client that leaves ends the span as aborted", async (t) => {
  const spans = await traced(t, async ({ worker, ask }) => {
    const held = worker.hold();
    const leaving = new AbortController();
    const asked = ask({ stream: true }, leaving.signal);
    const exchange = await held;
    leaving.abort();
    await assert.rejects(asked);
    await exchange.left;
  });
  const { attributes, status } = one(spans, name);
  assert.deepEqual([status, attributes["error.type"]], [2, "aborted"]);
  const server = one(spans, "POST /v1/chat/completions");
  assert.equal(server.attributes["sluice.outcome"], "clientLeft");
});
