import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { readReport } from "../../../src/confidential/report.ts";
import { fromBase64Url } from "../../../src/confidential/layout.ts";
import { model } from "./enclave-worker.ts";
import { startStreamGateway, tokenMilli, type StreamGateway } from "./stream-gateway.ts";

describe("a session through the gateway", () => {
  let stream: StreamGateway;
  before(async () => {
    stream = await startStreamGateway();
  });
  after(() => stream[Symbol.asyncDispose]());

  it("carries a chat that only the two ends can read, and bills what the enclave signed", async () => {
    const { worker } = stream;
    using session = await stream.open();
    session.ask();
    const { deltas, final, done } = await session.answer();
    assert.deepEqual(deltas, [{ content: "Hello" }, { content: " world" }]);
    assert.equal(final["finish_reason"], "stop");
    assert.deepEqual(done.usage, {
      prompt_tokens: 5,
      completion_tokens: 2,
      total_tokens: 7,
      prompt_tokens_details: { cached_tokens: 0 },
      completion_tokens_details: { reasoning_tokens: 0 },
      verified: false,
      unverified_reason: "simulated",
    });
    assert.equal(done.usedCUMilli, 7 * tokenMilli);
    assert.equal(done.pricing.network, "alpha");
    assert.equal(worker.requests.at(-1)?.["model"], model);
    const [charge] = await stream.charges();
    assert.equal(charge?.usedCuMilli, 7 * tokenMilli);
    assert.equal(charge?.surface, "confidential-stream");
    assert.equal(charge?.model, model);
    assert.equal(readReport(fromBase64Url(done.report) ?? new Uint8Array())?.rid, 1);
  });

  it("lists the worker's model with its evidence, and answers chat completions from it", async () => {
    const { gateway } = stream;
    const models = (await (await stream.get("/v1/models", gateway.key)).json()) as {
      data: object[];
    };
    assert.partialDeepStrictEqual(models.data[0], { id: model, evidence: "simulated" });
    const answer = await fetch(`${gateway.url}/v1/chat/completions`, {
      method: "POST",
      headers: { authorization: `Bearer ${gateway.key}`, "content-type": "application/json" },
      body: JSON.stringify({ model, messages: [{ role: "user", content: "Say hello" }] }),
    });
    assert.equal(answer.status, 200);
    assert.partialDeepStrictEqual(await answer.json(), {
      choices: [{ message: { content: "Hello world" }, finish_reason: "stop" }],
      usage: { total_tokens: 7, usedCUMilli: 7 * tokenMilli },
    });
  });
});
