/** The cause of each failure of a worker: what the operator sees of it, and the little that the client gets. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { failing, raw, workerSecret } from "../networks/worker-scripts.ts";
import { assertChatError, startChat, type Answer, type ChatGateway } from "./gateway.ts";

const inTime = { timeout: 20_000 };
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

test("Retry-After of a worker is passed on, up to 300", inTime, async () => {
  await using chat = await startChat();
  for (const [given, sent] of [
    ["17", "17"],
    ["86400", "300"],
    ["soon", "5"],
  ]) {
    chat.worker.script(failing(429, { "retry-after": given ?? "" }));
    assertChatError(await chat.ask(), 503, "UPSTREAM_ERROR", sent);
  }
});

test("a prompt that is too long is refused with the two numbers", inTime, async () => {
  await using chat = await startChat();
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

test("the access log names the worker, its tokens and their times", inTime, async () => {
  await using chat = await startChat();
  await chat.stream();
  const line = await lineOf(chat, 200);
  assert.deepEqual([line["upstream"], line["backend"]], ["classic", "Test/Model-1"]);
  assert.ok(Number(line["inputTokens"]) > 0 && Number(line["outputTokens"]) > 0);
  assert.ok(Number(line["firstTokenMs"]) > 0);
});
