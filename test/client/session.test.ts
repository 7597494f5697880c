import assert from "node:assert/strict";
import { test } from "node:test";
import { connect } from "../../src/client/client.ts";
import type { Answer } from "../../src/client/client.ts";
import { platform, pricing, startFakeGateway, tokens, usedCUMilli } from "./fake-gateway.ts";

async function textOf(answer: Answer): Promise<string> {
  let text = "";
  for await (const { content } of answer) text += String(content);
  return text;
}

const messages = [{ role: "user", content: "a secret" }];

test("a session is verified before the prompt, and the answer's bill by the client itself", async (t) => {
  const gateway = await startFakeGateway(t);
  const session = await connect(gateway.options);
  assert.equal(gateway.frames, 0);
  assert.equal(session.assurance, "simulated");
  assert.equal(session.termination, "worker");
  assert.equal(session.role, "worker");
  assert.equal(session.evidence.imageHash, platform.imageHash);
  assert.deepEqual(
    session.checks.filter(({ result }) => result === "fail"),
    [],
  );
  assert.equal(session.checks.at(-1)?.name, "session_keys");
  const answer = session.chat({ messages, max_tokens: 32, temperature: 0 });
  assert.equal(await textOf(answer), "Hello");
  const final = await answer.final;
  assert.equal(final.verified, true);
  assert.equal(final.usage.verified, true);
  assert.equal(final.usage.total_tokens, 14);
  assert.equal(final.finishReason, "stop");
  assert.equal(final.usedCUMilli, usedCUMilli);
  assert.equal(final.recomputedCUMilli, usedCUMilli);
  assert.deepEqual(final.report?.tokens, tokens);
  assert.deepEqual(final.pricing, pricing);
  assert.deepEqual(gateway.prompts, [
    { messages, max_tokens: 32, temperature: 0, model: "demo", stream: true },
  ]);
  assert.deepEqual(gateway.upgrades, [
    { protocols: "confidential.v1", authorization: "Bearer gateway_dev_key" },
  ]);
  await session.close();
  assert.deepEqual(gateway.requests, []);
});
