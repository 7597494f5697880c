/** Checks the surface `embeddings` with OpenAI's client, Vercel's `ai` and LangChain. */
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { OpenAI } from "openai";
import type { Script } from "../plugins/inference/networks/scripted-worker.ts";
import { startChat, tokenMilli, type ChatGateway } from "../plugins/inference/chat/gateway.ts";
import { embedders } from "./embedders.ts";

const model = "Test/Model-1";
const vector = [0.5, -0.25, 2];

/** Embeds each input as its index followed by two numbers, in the format that the request asks for. */
const embedding: Script = async (exchange) => {
  const { input, encoding_format: format } = exchange.body;
  const inputs: readonly unknown[] = Array.isArray(input) ? input : [input];
  const data = inputs.map((_, index) => {
    const numbers = [index, ...vector];
    const bytes = Buffer.from(Float32Array.from(numbers).buffer);
    const value = format === "base64" ? bytes.toString("base64") : numbers;
    return { object: "embedding", index, embedding: value };
  });
  const usage = { prompt_tokens: 5, total_tokens: 5 };
  exchange.begin(200, { "content-type": "application/json" });
  await exchange.push(JSON.stringify({ object: "list", data, model, usage }));
  exchange.end();
};

const unknownKey = `gateway_dev_${"0".repeat(32)}`;
let gateway: ChatGateway;
let ownKey: string;
before(async () => {
  gateway = await startChat();
  ownKey = gateway.gateway.key;
});
after(() => gateway[Symbol.asyncDispose]());

function client(): OpenAI {
  return new OpenAI({ apiKey: ownKey, baseURL: `${gateway.gateway.url}/v1`, maxRetries: 0 });
}

describe("OpenAI's client", { timeout: 30_000 }, () => {
  it("gets embeddings, which it asks for in base64, and the charge", async () => {
    gateway.worker.script(embedding);
    const answer = await client().embeddings.create({ model, input: ["a", "b"] });
    assert.equal(gateway.worker.received.at(-1)?.body["encoding_format"], "base64");
    assert.deepEqual(
      answer.data.map((one) => [...one.embedding]),
      [
        [0, ...vector],
        [1, ...vector],
      ],
    );
    assert.deepEqual(answer.usage, {
      prompt_tokens: 5,
      total_tokens: 5,
      usedCUMilli: 5 * tokenMilli,
    });
  });

  it("gets numbers for tokens if it asks for them", async () => {
    gateway.worker.script(embedding);
    const { data } = await client().embeddings.create({
      model,
      input: [[1, 2, 3]],
      encoding_format: "float",
      dimensions: 4,
    });
    assert.deepEqual(data[0]?.embedding, [0, ...vector]);
  });

  it("lists the models page by page", async () => {
    const listed = await Array.fromAsync(client().models.list());
    assert.deepEqual(
      listed.map(({ id, object, owned_by: owner }) => [id, object, owner]),
      [[model, "model", "classic"]],
    );
  });
});

for (const { name, embed } of embedders) {
  describe(`${name} over the API for embeddings`, { timeout: 30_000 }, () => {
    const target = (key: string) => ({ url: gateway.gateway.url, key, model });

    it("embeds many texts, with their usage if it shows it", async () => {
      gateway.worker.script(embedding);
      const { vectors, tokens = 5 } = await embed(target(ownKey), ["a", "b"]);
      assert.deepEqual(vectors, [
        [0, ...vector],
        [1, ...vector],
      ]);
      assert.equal(tokens, 5);
    });

    it("recognizes a wrong key", async () => {
      const asked = embed(target(unknownKey), ["a"]);
      await assert.rejects(asked, (error: { status?: number; statusCode?: number }) => {
        assert.equal(error.status ?? error.statusCode, 401);
        return true;
      });
    });
  });
}
