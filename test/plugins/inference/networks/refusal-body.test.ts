import assert from "node:assert/strict";
import { test } from "node:test";
import {
  readRefusal,
  retryAfterSeconds,
} from "../../../../plugins/inference/networks/refusal-body.ts";

function read(document: unknown, maxTokens?: number): ReturnType<typeof readRefusal> {
  return readRefusal(Buffer.from(JSON.stringify(document)), maxTokens);
}

/** Forms of the error by which servers say that the context is too short: their numbers, and the tokens asked for. */
const exceeded: readonly [
  name: string,
  document: object,
  maxTokens: number | undefined,
  requested: number,
][] = [
  [
    "OpenAI",
    {
      error: {
        message:
          "This model's maximum context length is 4096 tokens. However, your messages resulted in 5000 tokens.",
        type: "invalid_request_error",
        code: "context_length_exceeded",
      },
    },
    undefined,
    5000,
  ],
  [
    "vLLM",
    {
      object: "error",
      message:
        "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens (4900 in the messages, 100 in the completion).",
      type: "BadRequestError",
      code: 400,
    },
    100,
    5000,
  ],
  [
    "vLLM, which names only the prompt",
    {
      error: {
        message:
          "'max_tokens' is too large: 1000. This model's maximum context length is 4096 tokens and your request has 3500 input tokens (1000 > 4096 - 3500).",
      },
    },
    1000,
    4500,
  ],
  [
    "llama.cpp",
    {
      error: {
        code: 400,
        message: "the request exceeds the available context size",
        type: "exceed_context_size_error",
        n_prompt_tokens: 5000,
        n_ctx: 4096,
      },
    },
    undefined,
    5000,
  ],
  [
    "SGLang",
    { message: "The input (5000 tokens) is longer than the model's context length (4096 tokens)." },
    undefined,
    5000,
  ],
  [
    "TGI",
    {
      error:
        "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 4000 `inputs` tokens and 1000 `max_new_tokens`",
      error_type: "validation",
    },
    1000,
    5000,
  ],
];

for (const [name, document, maxTokens, requested] of exceeded) {
  test(`a prompt that is too long for ${name} is recognized with both numbers`, () => {
    assert.deepEqual(read(document, maxTokens).contextExceeded, { limit: 4096, requested });
  });
}

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
  const seconds = [
    "7",
    "0",
    "301",
    "1e9",
    "-1",
    "",
    "Fri, 31 Dec 1999 23:59:59 GMT",
    undefined,
  ].map(retryAfterSeconds);
  const none = undefined;
  assert.deepEqual(seconds, [7, 1, 300, none, none, none, none, none]);
});
