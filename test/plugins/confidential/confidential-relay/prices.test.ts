/** Prices of the classes of tokens on the encrypted stream: the offer, the bill, the receipt and the client's own sum. */
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { readPricing, recomputeCost } from "../../../../plugins/confidential/client/cost.ts";
import { fromBase64Url } from "../../../../plugins/confidential/protocol/encoding.ts";
import { readReport } from "../../../../plugins/confidential/protocol/usage-report.ts";
import { untilAllReady } from "../../all-ready.ts";
import { model } from "./enclave-worker.ts";
import { startStreamGateway, type StreamGateway } from "./stream-gateway.ts";

const classes = { prompt: "12", cached: "2", completion: "40", reasoning: "100" };
/** Milli-CU per token, at 0.25 USD. */
const milli = { prompt: 3, cached: 0.5, completion: 10, reasoning: 25 };
const tokens = { prompt: 20, completion: 9, cached: 16, reasoning: 4 };
const tokensMilli =
  4 * milli.prompt + 16 * milli.cached + 5 * milli.completion + 4 * milli.reasoning;

describe("an encrypted network that prices classes of tokens", { timeout: 60_000 }, () => {
  let stream: StreamGateway;
  before(async () => {
    // The worker is ready before the gateway, so that the first status has the prices.
    stream = await startStreamGateway({ prepare: (worker) => (worker.price = classes) });
    await untilAllReady(stream.gateway);
  });
  after(() => stream[Symbol.asyncDispose]());

  it("offers them, bills by the counts of the signed report, and keeps them in the receipt", async () => {
    stream.worker.script = { tokens };
    using session = await stream.open();
    assert.partialDeepStrictEqual(session.attestationJson["offer"], {
      pricePerTokenNano: "100",
      classes,
    });
    session.ask();
    const { done } = await session.answer();
    assert.equal(done.usedCUMilli, tokensMilli);
    assert.deepEqual([done.pricing.pricePerTokenNano, done.pricing.classes], ["100", classes]);
    const report = readReport(fromBase64Url(done.report) ?? new Uint8Array());
    const pricing = readPricing(done.pricing);
    assert.ok(report && pricing);
    assert.equal(recomputeCost(report, pricing), tokensMilli);
    const charge = (await stream.charges()).at(-1);
    assert.deepEqual(
      [charge?.usedMilliCu, charge?.inputTokens, charge?.outputTokens, charge?.pricing?.classes],
      [tokensMilli, 20, 9, classes],
    );
    const path = `/v1/confidential/receipts/${report.session}/1`;
    const receipt = (await (await stream.get(path, stream.gateway.key)).json()) as typeof done;
    assert.deepEqual(receipt.pricing, done.pricing);
  });

  it("counts a part that is larger than its whole as 0, as clients do, and says why it is not verified", async () => {
    const lie = { ...tokens, cached: 21, reasoning: 10 };
    stream.worker.script = { tokens: lie };
    using session = await stream.open();
    session.ask();
    const { done } = await session.answer();
    assert.equal(done.usage.unverified_reason, "usage_mismatch");
    const cost = 20 * milli.prompt + 9 * milli.completion;
    const pricing = readPricing(done.pricing);
    assert.ok(pricing);
    assert.deepEqual(
      [done.usedCUMilli, recomputeCost({ coefficient: 1000, tokens: lie }, pricing)],
      [cost, cost],
    );
  });

  it("reserves the dearer price of the prompt and the dearer price of the completion", async () => {
    const reserved = 288 * milli.prompt + 100 * milli.reasoning;
    // The whole completion is reasoning, and the prompt is longer than the frame, so the bill is what was reserved.
    stream.worker.script = { tokens: { prompt: 600, completion: 100, cached: 0, reasoning: 100 } };
    using session = await stream.open();
    session.ask();
    const { done } = await session.answer();
    assert.equal(done.usedCUMilli, reserved);
  });

  it("charges answers of its workers to chat by the same report", async () => {
    stream.worker.script = { tokens };
    const { url, key } = stream.gateway;
    const answer = await fetch(`${url}/v1/chat/completions`, {
      method: "POST",
      headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
      body: JSON.stringify({ model, messages: [{ role: "user", content: "x".repeat(80) }] }),
    });
    assert.partialDeepStrictEqual(await answer.json(), { usage: { usedCUMilli: tokensMilli } });
  });
});
