/**
 * Operators see the failures and the output of a worker, and the client gets little of them. See also
 * completions/hostile.slow.test.ts.
 */
import assert from "node:assert/strict";
import { after, before, describe, it, test } from "node:test";
import { failing, raw, workerSecret, usageOf, whole } from "../networks/worker-scripts.ts";
import {
  assertChatError,
  startChat,
  type Answer,
  type ChatGateway,
  inRequestedShape,
  tokenMilli,
} from "./gateway.ts";
import { chunkOf, eventOf } from "../networks/chat-events.ts";

const inTime = { timeout: 60_000 };
const json = { "content-type": "application/json" };

async function explanationOf({ gateway }: ChatGateway, answer: Answer): Promise<unknown> {
  const id = String(answer.headers["x-request-id"]);
  const found = await fetch(`${gateway.adminUrl}/explain?id=${encodeURIComponent(id)}`);
  const { exchanges } = (await found.json()) as { exchanges: Record<string, unknown>[] };
  return exchanges[0]?.["upstream_failure"];
}

async function lineOf(chat: ChatGateway, status: number): Promise<Record<string, unknown>> {
  const lines = (await chat.logged()).split("\n").filter((line) => line.startsWith("{"));
  const parsed = lines.map((line) => JSON.parse(line) as Record<string, unknown>);
  return parsed.find((line) => line["status"] === status) ?? {};
}

test("only the operator sees the refusal of a worker", inTime, async () => {
  await using chat = await startChat();
  const { host } = new URL(chat.worker.url);
  const error = { message: workerSecret, type: "auth_error", code: "invalid_api_key" };
  chat.worker.script(raw(401, json, [JSON.stringify({ error })]));
  const answer = await chat.ask();
  assertChatError(answer, 503, "UPSTREAM_ERROR");
  assert.doesNotMatch(answer.text, /secret|invalid_api_key|auth_error|127\.0\.0\.1|401/);
  assert.deepEqual(await explanationOf(chat, answer), {
    cause: "http_401",
    backend: "Test/Model-1",
    address: host,
    status: 401,
    type: "auth_error",
    code: "invalid_api_key",
  });
  const series = 'sluice_upstream_failures_total{upstream="classic",cause="http_401"}';
  assert.equal(await chat.metric(series), 1);
  const { upstream, upstreamFailure } = await lineOf(chat, 503);
  assert.equal(upstream, "classic");
  assert.deepEqual(upstreamFailure, {
    cause: "http_401",
    kind: "status",
    status: 401,
    address: host,
    type: "auth_error",
    code: "invalid_api_key",
    backend: "Test/Model-1",
  });
  assert.doesNotMatch(await chat.logged(), new RegExp(workerSecret));
});

test("a worker that cannot be reached is named with the error of the system", inTime, async () => {
  await using chat = await startChat();
  const { host } = new URL(chat.worker.url);
  await chat.worker.refuse();
  const answer = await chat.ask();
  assertChatError(answer, 503, "UPSTREAM_ERROR");
  const cause = { cause: "ECONNREFUSED", backend: "Test/Model-1", address: host };
  assert.deepEqual(await explanationOf(chat, answer), { ...cause, errno: "ECONNREFUSED" });
});

test("an answer that takes too long names the time limit", inTime, async () => {
  await using chat = await startChat({ network: "idleMs: 50" });
  chat.worker.script(() => {});
  const answer = await chat.ask({ stream: true });
  assertChatError(answer, 503, "UPSTREAM_ERROR");
  const { host } = new URL(chat.worker.url);
  const cause = { cause: "answer_timeout", backend: "Test/Model-1", address: host };
  assert.deepEqual(await explanationOf(chat, answer), { ...cause, timeout_ms: 50 });
});

test("/readyz says why the only worker is not used", inTime, async () => {
  await using chat = await startChat();
  chat.worker.script(failing(401), failing(401), failing(401));
  for (let n = 0; n < 3; n++) assertChatError(await chat.ask(), 503, "UPSTREAM_ERROR");
  const readiness = await fetch(`${chat.gateway.adminUrl}/readyz`);
  const { backends } = (await readiness.json()) as { backends: Record<string, object> };
  const { since: _, ...report } = backends["network classic"] as { since: string };
  assert.deepEqual(report, { state: "unusable", cause: "http_401" });
});

test("the access log names the worker, its tokens and their times", inTime, async () => {
  await using chat = await startChat();
  await chat.stream();
  const line = await lineOf(chat, 200);
  assert.deepEqual([line["upstream"], line["backend"]], ["classic", "Test/Model-1"]);
  assert.ok(Number(line["inputTokens"]) > 0 && Number(line["outputTokens"]) > 0);
  assert.ok(Number(line["firstTokenMs"]) > 0);
});

const maxTokens = 20;
/** Upper bound for the prompt "Hi": bytes of text and role, the constant per message, the template variables. */
const reservedMilliCu = tokenMilli * (maxTokens + 2 + 4 + 32 + '{"enable_thinking":false}'.length);

const content = eventOf(chunkOf({ content: "word " }));

describe("a usage report above the limits of the request", inTime, () => {
  it("is replaced by an estimate, marked as estimated, logged and counted by worker", async () => {
    await using chat = await startChat();
    for (const stream of [true, false]) {
      chat.worker.script(inRequestedShape({ usage: usageOf(1e9, 1e9) }));
      await chat.ask({ stream, max_tokens: maxTokens });
    }
    for (const charge of chat.charges()) {
      // "Hi" is one token; the eleven bytes of "Hello world" are three.
      assert.deepEqual([charge.inputTokens, charge.outputTokens], [1, 3]);
      assert.equal(charge.estimated, true);
      assert.equal(charge.usedMilliCu, 4 * tokenMilli);
    }
    assert.equal(chat.charges().length, 2);
    const series =
      'sluice_inference_disbelieved_usage_total{network="classic",worker="Test/Model-1"}';
    assert.equal(await chat.metric(series), 2);
    const lines = (await chat.logged()).split("\n");
    assert.equal(lines.filter((line) => line.includes("reported more usage")).length, 1);
  });

  it("that is accepted is charged up to the reservation, and the answer contains the charge", async () => {
    await using chat = await startChat();
    // A template may add more to the prompt than was reserved for it.
    chat.worker.script(whole({ usage: usageOf(10_000, 2) }));
    const { json: answered, headers } = await chat.ask({ max_tokens: maxTokens });
    assert.equal(answered.usage.usedCUMilli, reservedMilliCu);
    assert.equal(headers["x-used-cu-milli"], String(reservedMilliCu));
    const [charge] = chat.charges();
    assert.equal(charge?.usedMilliCu, reservedMilliCu);
    const cut = 10_002 * tokenMilli - reservedMilliCu;
    assert.equal(await chat.metric('sluice_cut_cu_milli_total{surface="chat"}'), cut);
  });
});

describe("a stream that exceeds its token limit", inTime, () => {
  it("ends with finish_reason length and [DONE], and the request to the worker is ended", async () => {
    await using chat = await startChat();
    const left = Promise.withResolvers<void>();
    chat.worker.script(async (exchange) => {
      exchange.begin();
      while ((await exchange.push(content)) === "taken");
      left.resolve();
    });
    const members = { max_tokens: maxTokens, stream_options: { include_usage: true } };
    const events = await chat.stream(members);
    await left.promise;
    assert.equal(events.at(-1), "[DONE]");
    const documents = events.slice(0, -1).map((event) => JSON.parse(event));
    const [last, usage] = documents.slice(-2);
    assert.deepEqual(last.choices, [{ index: 0, delta: {}, finish_reason: "length" }]);
    assert.equal(usage.usage.completion_tokens, maxTokens);
    const said = documents.filter(({ choices }) => choices[0]?.delta.content !== undefined).length;
    assert.ok(said >= maxTokens && said < 3 * maxTokens + 32, `${said} chunks`);
    const [charge] = chat.charges();
    assert.deepEqual([charge?.outputTokens, charge?.outcome], [maxTokens, "complete"]);
    assert.ok((charge?.usedMilliCu ?? Infinity) <= reservedMilliCu);
    const series = 'sluice_inference_capped_streams_total{network="classic",worker="Test/Model-1"}';
    assert.equal(await chat.metric(series), 1);
  });
});

it("tokens, duration and the first token are measured", inTime, async () => {
  await using chat = await startChat();
  await chat.stream();
  await chat.ask();
  chat.worker.script(failing(500));
  await chat.ask();
  const of =
    'gen_ai_operation_name="chat",gen_ai_provider_name="openai",gen_ai_request_model="Test/Model-1",network="classic"';
  const metric = (line: string): Promise<number | undefined> => chat.metric(line);
  assert.equal(await metric(`gen_ai_client_token_usage_sum{${of},gen_ai_token_type="input"}`), 10);
  assert.equal(await metric(`gen_ai_client_token_usage_sum{${of},gen_ai_token_type="output"}`), 4);
  assert.equal(await metric(`gen_ai_server_time_to_first_token_seconds_count{${of}}`), 1);
  const duration = "gen_ai_server_request_duration_seconds_count";
  assert.equal(await metric(`${duration}{${of},error_type=""}`), 2);
  assert.equal(await metric(`${duration}{${of},error_type="unavailable"}`), 1);
});

describe("an error", inTime, () => {
  let chat: ChatGateway;
  before(async () => {
    chat = await startChat();
  });
  after(() => chat[Symbol.asyncDispose]());

  it("has the Retry-After of a worker, up to 300", async () => {
    for (const [given, sent] of [
      ["17", "17"],
      ["86400", "300"],
      ["soon", "5"],
    ]) {
      chat.worker.script(failing(429, { "retry-after": given ?? "" }));
      assertChatError(await chat.ask(), 503, "UPSTREAM_ERROR", sent);
    }
  });

  it("for a prompt that is too long has the two numbers", async () => {
    const message = `This model's maximum context length is 4096 tokens. However, you requested 5000 tokens. ${workerSecret}`;
    chat.worker.script(raw(400, json, [JSON.stringify({ object: "error", message, code: 400 })]));
    const answer = await chat.ask({ stream: true });
    assert.equal(answer.status, 400);
    assert.doesNotMatch(answer.text, new RegExp(workerSecret));
    assert.deepEqual(answer.json.error, {
      message:
        "this model's maximum context length is 4096 tokens, and the request needs 5000 tokens",
      type: "invalid_request_error",
      param: "messages",
      code: "context_length_exceeded",
      max_context_tokens: 4096,
      requested_tokens: 5000,
    });
  });

  it("for an unknown model has its printable id and a route", async () => {
    const none = await chat.ask({ model: "Test/None\u001b[31m\u202e-1" });
    assert.equal(none.status, 404);
    assert.equal(
      none.json.error.message,
      'the model "Test/None?[31m?-1" does not exist; GET /v1/models lists the models',
    );
    const path = "/classic/v1/chat/completions";
    const long = await chat.ask({ model: "x".repeat(100_000) }, { path });
    assert.ok(long.text.length < 300);
    assert.match(long.json.error.message, /x…" does not exist; GET \/classic\/v1\/models/);
  });
});
