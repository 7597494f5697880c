import assert from "node:assert/strict";
import { test } from "node:test";
import type { Exchange } from "sluice-gateway/plugin";
import { testStep } from "sluice-gateway/testing";
import plugin from "./index.ts";

/** Answers with the body that the step has let pass. */
const surface = {
  body: { bytes: 10_000 },
  answer: (x: Exchange) => ({ status: 200, body: x.body?.toString() ?? "" }),
};

test("personal data in texts and parts is replaced, and nothing else", async () => {
  await using tested = await testStep(plugin, { surface });
  const request = (first: string, second: string): object => ({
    model: "m",
    messages: [
      { role: "user", content: first },
      { role: "user", content: [{ type: "text", text: second }, { type: "image_url" }] },
    ],
  });
  const body = request(
    "I am ada@acme.test, 4111 1111 1111 1111",
    "DE89 3704 0044 0532 0130 00, 1234567890123",
  );
  const { body: passed } = await tested.send({ body });
  assert.deepEqual(JSON.parse(passed), request("I am [EMAIL], [CARD]", "[IBAN], 1234567890123"));
});

test("a request without personal data keeps its bytes", async () => {
  await using tested = await testStep(plugin, { surface });
  const body = '{ "messages" : [ { "content" : "hello" } ] }';
  assert.equal((await tested.send({ body })).body, body);
  assert.equal((await tested.send({ body: "no JSON" })).body, "no JSON");
});
