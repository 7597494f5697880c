/** A whole gateway with the pipeline.yaml of the README: the model gets no personal data. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { scriptedUpstream, startTestGateway } from "../../../../plugins/contracts/testing.ts";
import { documentedPipeline } from "../documented.ts";

test("the model gets the request without personal data, and a large request is refused", async () => {
  await using models = await scriptedUpstream(({ path }) => {
    if (path === "/v1/models") return { body: { object: "list", data: [{ id: "acme/m-1" }] } };
    const usage = { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 };
    const message = { role: "assistant", content: "hi" };
    return { body: { choices: [{ index: 0, message, finish_reason: "stop" }], usage } };
  });
  const pipeline = documentedPipeline("redact-pii");
  await using gateway = await startTestGateway({ pipeline, env: { MODELS_URL: models.url } });
  // The gateway is ready when it has read the models.
  while ((await fetch(`${gateway.url}/readyz`)).status !== 200) await new Promise(setImmediate);
  const send = (body: object): Promise<Response> =>
    fetch(`${gateway.url}/v1/chat/completions`, {
      method: "POST",
      headers: { authorization: `Bearer ${gateway.key}`, "content-type": "application/json" },
      body: JSON.stringify({ model: "acme/m-1", ...body }),
    });
  const messagesOf = (content: string): object => ({ messages: [{ role: "user", content }] });
  const asked = messagesOf("I am ada@acme.test, +49 30 1234567, 4111 1111 1111 1111.");
  for (const body of [asked, { extra_body: asked }]) {
    const answer = await send(body);
    assert.equal(answer.status, 200, await answer.text());
    const { messages } = JSON.parse(models.requests.at(-1)?.body ?? "") as { messages: object[] };
    assert.deepEqual(messages, [{ role: "user", content: "I am [EMAIL], [PHONE], [CARD]." }]);
  }
  assert.equal((await send(messagesOf("x".repeat(1_048_576)))).status, 413);
});
