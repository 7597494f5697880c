import assert from "node:assert/strict";
import { test } from "node:test";
import { failureOf, openNetwork, resultOf } from "./network-harness.ts";
import { costOf, estimated, reported, streamOf } from "./call-fixtures.ts";
import { raw, streamed } from "./worker-scripts.ts";
import { chunkOf, eventOf } from "./chat-events.ts";
import { startWorker } from "./scripted-worker.ts";

const inTime = { timeout: 10_000 };

test("`reasoning` is reported as `reasoning_content`, streamed and whole", inTime, async () => {
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
    costMilliCu: 18,
  });
  assert.equal(asked.choices[0]?.delta.reasoning_content, "hm");
  const ending = await opened.ask({ streamed: false }).ending;
  assert.ok(ending.kind === "ended");
  assert.deepEqual(ending.message, {
    content: "",
    reasoningContent: "hm",
    toolCalls: [],
    logprobs: undefined,
  });
});

const long = "a text that is longer than what is read byte by byte";

test("white space that would end a line is replaced by spaces", inTime, async () => {
  const text = `data: {"choices":[{"delta":\r{"content":"${long}"},\r\t"finish_reason":"stop"}]}\n\n`;
  await using worker = await startWorker({ otherwise: streamOf(text) });
  await using opened = await openNetwork(worker.url);
  const asked = opened.ask();
  await resultOf(asked);
  assert.equal(asked.text, long);
});

test(
  "a chunk with a line end inside a string is not forwarded, because it could form a separate event",
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

test("the last valid report of a stream is used", inTime, async () => {
  const says = (usage: unknown): string => eventOf(chunkOf({ content: "x" }, { extra: { usage } }));
  const report = (completion: number): object => ({
    prompt_tokens: 5,
    completion_tokens: completion,
    total_tokens: 5 + completion,
  });
  const end = eventOf(chunkOf({}, { finishReason: "stop" })) + eventOf("[DONE]");
  const said = [report(1), report(2), null, { prompt_tokens: -1 }].map(says).join("");
  await using worker = await startWorker({ otherwise: streamOf(said + end) });
  await using opened = await openNetwork(worker.url);
  const { usage } = await resultOf(opened.ask());
  assert.deepEqual([usage.promptTokens, usage.completionTokens, usage.estimated], [5, 2, false]);
});

test(
  "the body is sent unchanged, with the headers of the network and of the request",
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
  ["a price", { prices: { pricePerTokenNano: "0" } }, "price"],
  ["a rate", { rate: undefined }, "rate"],
  ["a rate above zero", { rate: { kind: "fixed", usd: "0" } }, "rate"],
] as const) {
  test(`an answer without ${name} costs nothing and is counted`, inTime, async () => {
    await using worker = await startWorker({ otherwise: streamed() });
    await using opened = await openNetwork(worker.url, over);
    assert.deepEqual(costOf(await resultOf(opened.ask())), { ...reported, costMilliCu: 0 });
    for (const missing of ["price", "rate"]) {
      const name_ = `sluice_inference_unpriced_total{network="net",missing="${missing}"}`;
      assert.equal(opened.seen.value(name_), missing === series ? 1 : 0);
    }
  });
}
