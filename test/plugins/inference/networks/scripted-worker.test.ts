/** The scripted worker follows its scripts. Tests of the gateway depend on that. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { request, type IncomingMessage } from "node:http";
import { test } from "node:test";
import { gunzipSync } from "node:zlib";
import {
  cutImmediately,
  failing,
  raw,
  silent,
  streamed,
  usageOf,
  whole,
} from "./worker-scripts.ts";
import { chunkOf, dataOf, eventOf } from "./chat-events.ts";
import { startWorker, type Worker } from "./scripted-worker.ts";

const inTime = { timeout: 10_000 };

/** The answer without any decoding. */
async function ask(worker: Worker, body: object = {}): Promise<IncomingMessage> {
  const sent = request(`${worker.url}/v1/chat/completions`, { method: "POST" });
  sent.end(JSON.stringify({ model: "Test/Model-1", ...body }));
  const [answer] = (await once(sent, "response")) as [IncomingMessage];
  return answer;
}

async function bytesOf(answer: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of answer) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks);
}

async function textOf(answer: IncomingMessage): Promise<string> {
  return (await bytesOf(answer)).toString();
}

/** Deltas, finish reason, usage and `[DONE]` of a stream. */
function contentsOf(stream: string): unknown[] {
  interface Chunk {
    readonly choices: readonly { readonly delta: object; readonly finish_reason: string | null }[];
    readonly usage?: unknown;
  }
  return dataOf(stream).map((data) => {
    if (data === "[DONE]") return data;
    const { choices, usage } = JSON.parse(data) as Chunk;
    return choices[0]?.finish_reason ?? choices[0]?.delta ?? usage;
  });
}

const spoken = [
  { role: "assistant", content: "" },
  { content: "Hello" },
  { content: " world" },
  "stop",
  "[DONE]",
];

test("a whole answer contains the scripted usage, and requests are recorded", inTime, async () => {
  await using worker = await startWorker();
  worker.script(whole({ tokens: ["a", "b"], reasoning: ["r"], usage: -1, extra: { odd: true } }));
  const document: unknown = JSON.parse(await textOf(await ask(worker, { stream: false })));
  assert.partialDeepStrictEqual(document, {
    object: "chat.completion",
    choices: [{ message: { content: "ab", reasoning_content: "r" }, finish_reason: "stop" }],
    usage: -1,
    odd: true,
  });
  assert.equal(worker.received[0]?.body["stream"], false);
  assert.equal(worker.received[0]?.path, "/v1/chat/completions");
  assert.equal(worker.received[0]?.headers.host, new URL(worker.url).host);
});

test("usage can be omitted from a whole answer", inTime, async () => {
  await using worker = await startWorker({ otherwise: whole({ usage: "none" }) });
  assert.ok(!(await textOf(await ask(worker))).includes("usage"));
});

test("scripts answer one request each, then the default does", inTime, async () => {
  await using worker = await startWorker({ otherwise: failing(503) });
  worker.script(failing(429, { "retry-after": "7" }), streamed());
  const busy = await ask(worker);
  assert.deepEqual([busy.statusCode, busy.headers["retry-after"]], [429, "7"]);
  await textOf(busy);
  assert.deepEqual(contentsOf(await textOf(await ask(worker))), spoken);
  assert.equal((await ask(worker)).resume().statusCode, 503);
});

for (const [name, form] of [
  ["lines that end with CRLF", { newline: "\r\n" }],
  ["lines that end with CR", { newline: "\r" }],
  ["data on several lines", { multiline: true }],
  ["comments between", { pings: true }],
  ["every byte by itself", { pieces: "byte" }],
  ["everything at once", { pieces: "whole" }],
] as const) {
  test(`a stream with ${name} has the same content`, inTime, async () => {
    await using worker = await startWorker({ otherwise: streamed(form) });
    assert.deepEqual(contentsOf(await textOf(await ask(worker))), spoken);
  });
}

test("a stream reports usage if asked, and scripted usage in any case", inTime, async () => {
  await using worker = await startWorker({ otherwise: streamed() });
  const asked = await ask(worker, { stream_options: { include_usage: true } });
  const withUsage = contentsOf(await textOf(asked));
  assert.deepEqual(withUsage, [...spoken.slice(0, -1), usageOf(5, 2), "[DONE]"]);
  worker.script(streamed({ usage: "many", done: false, tokens: [], finishReason: "length" }));
  assert.deepEqual(contentsOf(await textOf(await ask(worker))), [spoken[0], "length", "many"]);
});

test("compressed answers are gzip, in one piece or byte by byte", inTime, async () => {
  await using worker = await startWorker({ otherwise: streamed({ gzip: true, pieces: "byte" }) });
  worker.script(whole({ gzip: true }));
  const document = await ask(worker);
  assert.equal(document.headers["content-encoding"], "gzip");
  assert.match(gunzipSync(await bytesOf(document)).toString(), /^\{"id":"worker-1"/);
  const stream = await ask(worker);
  assert.equal(stream.headers["content-encoding"], "gzip");
  assert.deepEqual(contentsOf(gunzipSync(await bytesOf(stream)).toString()), spoken);
});

test("any bytes can be sent", inTime, async () => {
  await using worker = await startWorker();
  worker.script(raw(200, { "content-type": "text/event-stream" }, ["data: {\n\n", "\0garbage"]));
  assert.equal(await textOf(await ask(worker)), "data: {\n\n\0garbage");
});

test("a stream is cut after the scripted number of events", inTime, async () => {
  await using worker = await startWorker();
  worker.script(streamed({ stop: { after: 2, how: "cut" } }));
  const answer = await ask(worker);
  let text = "";
  answer.on("data", (chunk: Buffer) => (text += chunk.toString()));
  await assert.rejects(once(answer, "end"), { code: "ECONNRESET" });
  assert.deepEqual(contentsOf(text), spoken.slice(0, 2));
});

test("a worker cuts the connection before the head", inTime, async () => {
  await using worker = await startWorker({ otherwise: cutImmediately });
  await assert.rejects(ask(worker), { code: "ECONNRESET" });
});

for (const [name, script] of [
  ["before the head", silent],
  ["after the first event", streamed({ stop: { after: 1, how: "silence" } })],
] as const) {
  test(`a worker that is silent ${name} is busy until the client leaves`, inTime, async () => {
    const { promise: asked, resolve } = Promise.withResolvers<void>();
    await using worker = await startWorker({
      async otherwise(exchange) {
        await script(exchange);
        resolve();
      },
    });
    const sent = request(`${worker.url}/v1/chat/completions`, { method: "POST" });
    sent.on("error", () => {});
    sent.end("{}");
    await asked;
    assert.equal(worker.inFlight, 1);
    sent.destroy();
    await worker.idle();
    assert.equal(worker.inFlight, 0);
  });
}

test("a held answer is sent piece by piece when the test releases it", inTime, async () => {
  await using worker = await startWorker();
  const held = worker.hold();
  const answering = ask(worker);
  const exchange = await held;
  exchange.begin();
  const answer = await answering;
  const first = eventOf(chunkOf({ content: "a" }));
  const [read] = await Promise.all([once(answer, "data"), exchange.push(first)]);
  assert.equal(String(read[0]), first);
  exchange.end();
  assert.equal(await textOf(answer), "");
  await worker.idle();
});

test(
  "a push waits for a client that does not read, and its disconnect is detected",
  inTime,
  async () => {
    await using worker = await startWorker();
    const held = worker.hold();
    const answering = ask(worker);
    const exchange = await held;
    exchange.begin();
    const answer = await answering;
    const pushed = exchange.push(Buffer.alloc(64 * 1024 * 1024));
    assert.ok(exchange.waitingBytes > 0);
    answer.destroy();
    await exchange.left;
    assert.equal(await pushed, "left");
  },
);

test("connections are refused, and accepted again on the same port", inTime, async () => {
  await using worker = await startWorker();
  await worker.refuse();
  await assert.rejects(ask(worker), { code: "ECONNREFUSED" });
  await worker.accept();
  assert.equal((await ask(worker)).resume().statusCode, 200);
});

test("documents are served as configured, and reads are recorded", inTime, async () => {
  await using worker = await startWorker({ models: ["A/B-1"] });
  const get = async (path: string): Promise<[number, string]> => {
    const answer = await fetch(worker.url + path);
    return [answer.status, await answer.text()];
  };
  assert.match((await get("/v1/models"))[1], /"id":"A\/B-1"/);
  assert.equal((await get("/status"))[0], 404);
  worker.documents.set("/status", { workers: [] });
  assert.deepEqual(await get("/status"), [200, '{"workers":[]}']);
  worker.documents.set("/status", "{");
  assert.deepEqual(await get("/status"), [200, "{"]);
  worker.documents.set("/status", 500);
  assert.deepEqual(await get("/status"), [500, ""]);
  assert.deepEqual(worker.reads, ["/v1/models", "/status", "/status", "/status", "/status"]);
  assert.equal(worker.received.length, 0);
});
