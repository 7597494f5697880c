/** Tests of the parser of the refusals of workers. */
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  readRefusal,
  retryAfterSeconds,
} from "../../../../plugins/inference/networks/refusal-body.ts";

function read(document: unknown): ReturnType<typeof readRefusal> {
  return readRefusal(Buffer.from(JSON.stringify(document)), undefined);
}

/** Forms of the error by which servers say that the context of 4,096 tokens is too short for 5,000. */
const exceeded: Readonly<Record<string, readonly [text: string, maxTokens?: number]>> = {
  OpenAI: [
    `{"error":{"message":"This model's maximum context length is 4096 tokens. However, your messages resulted in 5000 tokens.","type":"invalid_request_error","code":"context_length_exceeded"}}`,
  ],
  vLLM: [
    `{"object":"error","message":"This model's maximum context length is 4096 tokens. However, you requested 5000 tokens (4900 in the messages, 100 in the completion).","type":"BadRequestError","code":400}`,
    100,
  ],
  "vLLM, which names only the prompt": [
    `{"error":{"message":"'max_tokens' is too large: 1000. This model's maximum context length is 4096 tokens and your request has 4000 input tokens (1000 > 4096 - 4000)."}}`,
    1000,
  ],
  "llama.cpp": [
    `{"error":{"code":400,"message":"the request exceeds the available context size","type":"exceed_context_size_error","n_prompt_tokens":5000,"n_ctx":4096}}`,
  ],
  SGLang: [
    `{"message":"The input (5000 tokens) is longer than the model's context length (4096 tokens)."}`,
  ],
  TGI: [
    `{"error":"Input validation error: \`inputs\` tokens + \`max_new_tokens\` must be <= 4096. Given: 4000 \`inputs\` tokens and 1000 \`max_new_tokens\`","error_type":"validation"}`,
    1000,
  ],
};

test("a prompt that is too long is recognized with both numbers, whatever server refuses it", () => {
  for (const [server, [text, maxTokens]] of Object.entries(exceeded)) {
    const { contextExceeded } = readRefusal(Buffer.from(text), maxTokens);
    assert.deepEqual(contextExceeded, { limit: 4096, requested: 5000 }, server);
  }
});

test("numbers that contradict each other are not shown", () => {
  const error = { code: "context_length_exceeded", message: "context length 4096, you have 12" };
  assert.deepEqual(read({ error }).contextExceeded, { limit: 4096, requested: undefined });
  const silent = { error: { code: "context_length_exceeded" } };
  assert.deepEqual(read(silent).contextExceeded, { limit: undefined, requested: undefined });
});

test("type and code are kept only in the form of identifiers", () => {
  assert.deepEqual(read({ error: { type: "auth_error", code: "invalid_api_key" } }), {
    type: "auth_error",
    code: "invalid_api_key",
    contextExceeded: undefined,
  });
  const text = { error: { type: "two words", code: "x".repeat(65), message: "unknown model" } };
  assert.deepEqual(read(text), { type: undefined, code: undefined, contextExceeded: undefined });
});

test("a body that is not an object of JSON says nothing", () => {
  for (const body of [
    "",
    "<html>",
    "[]",
    "5",
    "null",
    '{"error":null}',
    '{"error":{"message":5}}',
  ]) {
    const { type, code, contextExceeded } = readRefusal(Buffer.from(body), undefined);
    assert.deepEqual([type, code, contextExceeded], [undefined, undefined, undefined]);
  }
});

test("only whole seconds are taken from Retry-After, from 1 to 300", () => {
  assert.deepEqual(["7", "0", "301"].map(retryAfterSeconds), [7, 1, 300]);
  for (const odd of ["1e9", "-1", "", "Fri, 31 Dec 1999 23:59:59 GMT", undefined]) {
    assert.equal(retryAfterSeconds(odd), undefined, String(odd));
  }
});
