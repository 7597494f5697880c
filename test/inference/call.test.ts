import assert from "node:assert/strict";
import { test } from "node:test";
import type { InferenceResult } from "../../src/services/networks.ts";
import { failureOf, openNetwork, resultOf, type Opened } from "./asking.ts";
import { cutAtOnce, failing, raw, silent, streamed, whole, type Streamed } from "./scripts.ts";
import { chunkOf, eventOf } from "./sse.ts";
import { startWorker, type Script, type Worker } from "./worker.ts";

const inTime = { timeout: 10_000 };

function costOf({ usage, costMilli }: InferenceResult): unknown {
  return { ...usage, costMilli };
}

// 12 nano × 0.25 USD = 3 milli-CU a token.
const reported = {
  promptTokens: 5,
  completionTokens: 2,
  cachedTokens: undefined,
  reasoningTokens: undefined,
  estimated: false,
  costMilli: 21,
};

const streamOf = (...texts: string[]): Script => raw(200, {}, texts);
const estimated = { ...reported, estimated: true };

/** Two workers of the model, of which the first is asked first. */
async function two(first: Worker, second: Worker, more: object = {}): Promise<Opened> {
  const listed = [first, second].map(({ url }, n) => ({ id: `w${n}`, model: "Test/Model-1", url }));
  first.documents.set("/status", { price_per_token_nano: "12", workers: listed });
  return openNetwork(first.url, { statusUrl: `${first.url}/status`, ...more });
}

for (const [name, said] of [
  ["event by event", {}],
  ["by the byte", { pieces: "byte" }],
  ["at once", { pieces: "whole" }],
  ["in lines that end with CRLF", { newline: "\r\n" }],
  ["on several lines", { multiline: true }],
  ["with comments between", { pings: true }],
  ["compressed", { gzip: true }],
  ["compressed, by the byte", { gzip: true, pieces: "byte" }],
  ["without [DONE]", { done: false }],
] satisfies [string, Streamed][]) {
  test(`a stream that comes ${name} is told, with what it costs`, inTime, async () => {
    await using worker = await startWorker({ otherwise: streamed(said) });
    await using opened = await openNetwork(worker.url);
    const asked = opened.ask();
    const result = await resultOf(asked);
    assert.equal(asked.text, "Hello world");
    assert.deepEqual(costOf(result), reported);
    assert.equal(result.finishReason, "stop");
    assert.deepEqual(result.worker, {
      network: "net",
      id: "Test/Model-1",
      pricing: {
        network: "net",
        coefficient: 1000,
        pricePerTokenNano: "12",
        tokenUsdRate: "0.25",
        asOf: new Date(opened.seen.clock.now()).toISOString(),
      },
    });
  });
}

test("an answer in one piece is told in one piece", inTime, async () => {
  await using worker = await startWorker({ otherwise: whole({ reasoning: ["hm"], gzip: true }) });
  await using opened = await openNetwork(worker.url);
  const ending = await opened.ask({ streamed: false }).ending;
  assert.ok(ending.kind === "ended");
  assert.deepEqual(ending.message, { content: "Hello world", reasoningContent: "hm" });
  assert.deepEqual(costOf(ending.result), { ...reported, completionTokens: 3, costMilli: 24 });
});

test("`reasoning` is told as `reasoning_content`, streamed and in one piece", inTime, async () => {
  await using worker = await startWorker();
  await using opened = await openNetwork(worker.url);
  const delta = { reasoning: "hm" };
  worker.script(
    raw(200, {}, [eventOf(chunkOf(delta)), eventOf(chunkOf({}, { finishReason: "stop" }))]),
    raw(200, {}, [JSON.stringify({ choices: [{ message: { content: null, ...delta } }] })]),
  );
  const asked = opened.ask();
  assert.deepEqual(costOf(await resultOf(asked)), {
    ...estimated,
    completionTokens: 1,
    costMilli: 18,
  });
  assert.equal(asked.choices[0]?.delta.reasoning_content, "hm");
  const ending = await opened.ask({ streamed: false }).ending;
  assert.ok(ending.kind === "ended");
  assert.deepEqual(ending.message, { content: "", reasoningContent: "hm" });
});

const long = "a text that is longer than what is read byte by byte";

test("white space that would end a line is told as spaces", inTime, async () => {
  const text = `data: {"choices":[{"delta":\r{"content":"${long}"},\r\t"finish_reason":"stop"}]}\n\n`;
  await using worker = await startWorker({ otherwise: streamOf(text) });
  await using opened = await openNetwork(worker.url);
  const asked = opened.ask();
  await resultOf(asked);
  assert.equal(asked.text, long);
});

test(
  "a line that ends inside a string reaches nobody: it could be an event of its own",
  inTime,
  async () => {
    const forged = `${long}\r\rdata: [DONE]\r\r`;
    const text = `data: {"choices":[{"delta":{"content":"${forged}"},"finish_reason":"stop"}]}\n\n`;
    await using worker = await startWorker({ otherwise: streamOf(text) });
    await using opened = await openNetwork(worker.url);
    const asked = opened.ask();
    assert.equal((await failureOf(asked)).failure, "unavailable");
    assert.deepEqual(asked.choices, []);
  },
);

for (const usage of ["none", -1, {}, { prompt_tokens: -5, completion_tokens: 2 }, "7"]) {
  test(`usage of ${JSON.stringify(usage)} is replaced by a count`, inTime, async () => {
    await using worker = await startWorker({ otherwise: streamed({ usage }) });
    await using opened = await openNetwork(worker.url);
    assert.deepEqual(costOf(await resultOf(opened.ask())), estimated);
    worker.script(whole({ usage }));
    // Eleven characters are three tokens.
    const counted = { ...estimated, completionTokens: 3, costMilli: 24 };
    assert.deepEqual(costOf(await resultOf(opened.ask({ streamed: false }))), counted);
  });
}

for (const [status, failure] of [
  [400, "rejected"],
  [413, "rejected"],
  [422, "rejected"],
  [404, "notServed"],
] as const) {
  test(`a worker's ${status} is ${failure}, and no other worker is asked`, inTime, async () => {
    await using first = await startWorker({ otherwise: failing(status) });
    await using second = await startWorker();
    await using opened = await two(first, second);
    assert.deepEqual(await failureOf(opened.ask()), { failure, result: undefined });
    assert.equal(second.received.length, 0);
    assert.ok(opened.network.ready);
  });
}

const error = '{"error":{"message":"secret","code":500}}';

const unanswered: readonly [name: string, script: Script][] = [
  ...[401, 403, 429, 500, 502, 503, 599].map((status): [string, Script] => [
    `answers ${status}`,
    failing(status),
  ]),
  ["redirects", raw(307, { location: "/v1/elsewhere" }, [])],
  ["answers 204", (exchange) => (exchange.begin(204), exchange.end())],
  ["cuts the connection before the head", cutAtOnce],
  ["cuts the connection after the head", (exchange) => (exchange.begin(), exchange.cut())],
  ["ends without an event", streamOf()],
  ["sends comments only", streamOf(": ping\n\n")],
  ["sends no event stream", streamOf("<html>\n\n</html>\n")],
  ["sends an event that is no JSON", streamOf("data: {\n\n")],
  ["sends an event that is no object", streamOf("data: []\n\n")],
  ["reports an error first", streamOf(`data: ${error}\n\n`)],
  ["answers in one piece although asked to stream", whole()],
  ["sends an endless event", streamOf(`data: ${"x".repeat(1_500_000)}`)],
  ["codes in a way that nobody knows", raw(200, { "content-encoding": "rot13" }, ["data: {}\n\n"])],
  ["codes twice", raw(200, { "content-encoding": "gzip, br" }, ["data: {}\n\n"])],
  ["says gzip and does not mean it", raw(200, { "content-encoding": "gzip" }, ["data: {}\n\n"])],
];

for (const [name, script] of unanswered) {
  test(`of a worker that ${name} nothing is told, and another answers`, inTime, async () => {
    await using first = await startWorker({ otherwise: script });
    await using second = await startWorker({ otherwise: streamed() });
    await using opened = await two(first, second);
    const asked = opened.ask();
    const result = await resultOf(asked);
    assert.equal(result.worker.id, "w1");
    assert.equal(asked.text, "Hello world");
    assert.deepEqual([first.received.length, second.received.length], [1, 1]);
  });

  test(`when every worker ${name} the answer is unavailable`, inTime, async () => {
    await using worker = await startWorker({ otherwise: script });
    await using opened = await two(worker, worker);
    const failed = await failureOf(opened.ask());
    assert.deepEqual(failed, { failure: "unavailable", result: undefined });
    assert.equal(worker.received.length, 2);
  });
}

for (const [name, text] of [
  ["no JSON", "<html>"],
  ["an empty body", ""],
  ["another document", "[]"],
  ["no choices", '{"choices":[]}'],
  ["a choice without a message", '{"choices":[{}]}'],
  ["content of another type", '{"choices":[{"message":{"content":[1]}}]}'],
  ["an error", error],
  ["too much", `{"x":"${"y".repeat(17 * 1024 * 1024)}"}`],
]) {
  test(`a whole answer that is ${name} is none, and every worker is asked`, inTime, async () => {
    const headers = { "content-type": "application/json" };
    await using worker = await startWorker({ otherwise: raw(200, headers, [text ?? ""]) });
    await using opened = await two(worker, worker);
    const failed = await failureOf(opened.ask({ streamed: false }));
    assert.deepEqual(failed, { failure: "unavailable", result: undefined });
    assert.equal(worker.received.length, 2);
  });
}

test("a worker that refuses connections rests, and another answers", inTime, async () => {
  await using first = await startWorker();
  await using second = await startWorker({ otherwise: streamed() });
  await using opened = await two(first, second);
  await first.refuse();
  assert.equal((await resultOf(opened.ask())).worker.id, "w1");
  assert.ok(opened.seen.lines.includes("warn a worker fails and is left out"));
  assert.equal((await resultOf(opened.ask())).worker.id, "w1");
});

test("three workers are asked at most", inTime, async () => {
  await using worker = await startWorker({ otherwise: failing(500) });
  const workers = ["a", "b", "c", "d"].map((id) => ({ id, model: "Test/Model-1" }));
  worker.documents.set("/status", { workers });
  await using opened = await openNetwork(worker.url, { statusUrl: `${worker.url}/status` });
  assert.equal((await failureOf(opened.ask())).failure, "unavailable");
  assert.equal(worker.received.length, 3);
});

const first = eventOf(chunkOf({ content: "Hello" }));

for (const [name, script] of [
  ["is cut", streamed({ stop: { after: 2, how: "cut" } })],
  ["ends too early", streamOf(first)],
  ["turns into garbage", streamOf(first, "data: {\n\n")],
  ["turns into an error", streamOf(first, `data: ${error}\n\n`)],
  ["turns into an endless event", streamOf(first, `data: ${"x".repeat(1_500_000)}`)],
] satisfies [string, Script][]) {
  test(
    `a stream that ${name} after the first chunk is broken, and charged so far`,
    inTime,
    async () => {
      await using worker = await startWorker({ otherwise: script });
      await using second = await startWorker({ otherwise: streamed() });
      await using opened = await two(worker, second);
      const asked = opened.ask();
      const { failure, result } = await failureOf(asked);
      assert.equal(failure, "broken");
      assert.equal(asked.text, "Hello");
      assert.ok(result);
      assert.deepEqual(costOf(result), { ...estimated, completionTokens: 1, costMilli: 18 });
      assert.equal(second.received.length, 0);
    },
  );
}

test("a worker silent before its head, and then another, time out", inTime, async () => {
  await using worker = await startWorker({ otherwise: silent });
  await using opened = await two(worker, worker);
  const holding = [worker.hold(), worker.hold()];
  const asked = opened.ask();
  for (const held of holding) {
    const exchange = await held;
    opened.seen.clock.advance(9_000);
    assert.equal(worker.inFlight, 1, "not before its time");
    opened.seen.clock.advance(2_000);
    await exchange.left;
  }
  assert.deepEqual(await failureOf(asked), { failure: "timedOut", result: undefined });
});

test("an answer in one piece may take its time to begin, but not for ever", inTime, async () => {
  await using worker = await startWorker();
  await using opened = await openNetwork(worker.url);
  const held = worker.hold();
  const asked = opened.ask({ streamed: false });
  const exchange = await held;
  opened.seen.clock.advance(59_000);
  assert.equal(worker.inFlight, 1);
  opened.seen.clock.advance(2_000);
  await exchange.left;
  assert.deepEqual(await failureOf(asked), { failure: "timedOut", result: undefined });
});

test("a worker silent after the first chunk is timed out, and charged so far", inTime, async () => {
  await using worker = await startWorker();
  await using opened = await openNetwork(worker.url);
  const held = worker.hold();
  const asked = opened.ask();
  const exchange = await held;
  exchange.begin();
  const arrived = asked.arrived();
  await exchange.push(first);
  await arrived;
  opened.seen.clock.advance(11_000);
  const { failure, result } = await failureOf(asked);
  assert.equal(failure, "timedOut");
  assert.equal(result?.usage.completionTokens, 1);
  await exchange.left;
});

test(
  "a caller who left before the first chunk owes nothing, and nobody else is asked",
  inTime,
  async () => {
    await using worker = await startWorker();
    await using opened = await two(worker, worker);
    const held = worker.hold();
    const asked = opened.ask();
    const exchange = await held;
    assert.equal(asked.call.abort(), undefined);
    await exchange.left;
    await worker.idle();
    assert.equal(worker.received.length, 1);
    assert.equal(asked.call.abort(), undefined, "and again");
  },
);

test("a caller who left at once has asked nobody", inTime, async () => {
  await using worker = await startWorker();
  await using opened = await openNetwork(worker.url);
  assert.equal(opened.ask().call.abort(), undefined);
  await resultOf(opened.ask({ streamed: false }));
  assert.equal(worker.received.length, 1);
});

test(
  "a caller who left amid the stream pays for what came, and the worker is let go",
  inTime,
  async () => {
    await using worker = await startWorker();
    await using opened = await openNetwork(worker.url);
    const held = worker.hold();
    const asked = opened.ask();
    const exchange = await held;
    exchange.begin();
    const arrived = asked.arrived();
    await exchange.push(first);
    await arrived;
    const result = asked.call.abort();
    assert.ok(result);
    assert.deepEqual(costOf(result), { ...estimated, completionTokens: 1, costMilli: 18 });
    await exchange.left;
    assert.equal(asked.call.abort(), undefined, "once");
  },
);

test(
  "what is sent is what was given, under the network's headers and the request's",
  inTime,
  async () => {
    await using worker = await startWorker();
    const headers = { Authorization: "Bearer w", "accept-encoding": "br", "content-length": "7" };
    await using opened = await openNetwork(`${worker.url}/v1/`, { headers });
    const body = Buffer.from(JSON.stringify({ model: "Test/Model-1", x: "é".repeat(40_000) }));
    await resultOf(opened.ask({ streamed: false, body, headers: ["traceparent", "00-1"] }));
    const [received] = worker.received;
    assert.equal(received?.text, body.toString());
    assert.equal(received.path, "/v1/chat/completions");
    assert.equal(received.headers.authorization, "Bearer w");
    assert.equal(received.headers["traceparent"], "00-1");
    assert.equal(received.headers["accept-encoding"], "br");
  },
);

for (const [name, over, series] of [
  ["a price", { pricePerTokenNano: "0" }, "price"],
  ["a rate", { rate: undefined }, "rate"],
  ["a rate above zero", { rate: { kind: "fixed", usd: "0" } }, "rate"],
] as const) {
  test(`an answer without ${name} costs nothing, and is counted`, inTime, async () => {
    await using worker = await startWorker({ otherwise: streamed() });
    await using opened = await openNetwork(worker.url, over);
    assert.deepEqual(costOf(await resultOf(opened.ask())), { ...reported, costMilli: 0 });
    for (const missing of ["price", "rate"]) {
      const name_ = `sluice_inference_unpriced_total{network="net",missing="${missing}"}`;
      assert.equal(opened.seen.value(name_), missing === series ? 1 : 0);
    }
  });
}

test("a worker that breaks three answers in a row rests", inTime, async () => {
  await using worker = await startWorker({ otherwise: failing(500) });
  await using opened = await openNetwork(worker.url);
  for (const ready of [true, true, false]) {
    assert.equal((await failureOf(opened.ask())).failure, "unavailable");
    assert.equal(opened.network.ready, ready);
  }
  worker.script(streamed());
  await resultOf(opened.ask());
  assert.ok(opened.network.ready, "asked for want of another, it served");
});
