/** Tests of the parser of chat requests in an enclave. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import * as fc from "fast-check";
import { readChatRequest } from "../../../../plugins/confidential/enclave/chat-request.ts";
import { createRequestBuffer } from "../../../../plugins/confidential/enclave/request-buffer.ts";
import { prepare } from "./client.ts";

const { hello } = await prepare({ maxOutputTokens: 100 });
const base = { model: hello.model, messages: [{ role: "user", content: "hi" }] };

function read(asked: object): ReturnType<typeof readChatRequest> {
  return readChatRequest(Buffer.from(JSON.stringify(asked)), hello);
}

function bodyOf(asked: object): Record<string, unknown> {
  const request = read(asked);
  assert.ok("body" in request, JSON.stringify(request));
  return JSON.parse(request.body.toString()) as Record<string, unknown>;
}

describe("a decrypted request", () => {
  test("gets the limit of hello if it has none, and the lower of two limits", () => {
    assert.equal(bodyOf(base)["max_tokens"], 100);
    assert.equal(bodyOf({ ...base, max_tokens: null, n: null })["max_tokens"], 100);
    assert.equal(bodyOf({ ...base, max_tokens: 100 })["max_tokens"], 100);
    assert.equal(bodyOf({ ...base, max_tokens: 9, max_completion_tokens: 3 })["max_tokens"], 3);
  });

  test("is also measured by its tools, its format, and the calls and the reasoning of earlier answers", () => {
    const tools = [{ type: "function" }];
    const calls = [{ id: "1" }];
    const message = { content: "two", reasoning_content: "four", tool_calls: calls };
    const format = { type: "json_object" };
    const request = read({ ...base, messages: [message], tools, response_format: format });
    assert.ok("body" in request);
    const texts = ["two", "four", ...[tools, calls, format].map((one) => JSON.stringify(one))];
    assert.equal(request.promptBytes, texts.join("").length);
  });

  test("with any JSON is either refused or within the limits of hello", () => {
    fc.assert(
      fc.property(fc.jsonValue(), fc.jsonValue(), fc.jsonValue(), (limit, n, messages) => {
        const request = read({ ...base, max_tokens: limit, n, messages });
        if ("code" in request) return;
        assert.ok(request.maxTokens >= 1 && request.maxTokens <= 100);
        const body = JSON.parse(request.body.toString()) as Record<string, unknown>;
        assert.equal(body["max_tokens"], request.maxTokens);
        assert.equal(body["stream"], true);
      }),
    );
  });

  test("cannot add members through names that are special in JavaScript", () => {
    const text = `{"model":"${hello.model}","messages":[1],"__proto__":{"max_tokens":5000}}`;
    const request = readChatRequest(Buffer.from(text), hello);
    assert.ok("body" in request);
    assert.equal(request.maxTokens, 100);
    assert.match(request.body.toString(), /"max_tokens":100/);
  });
});

describe("the buffer of a request", () => {
  test("returns the data that was added and is empty afterwards", () => {
    fc.assert(
      fc.property(fc.array(fc.uint8Array({ maxLength: 3_000 }), { maxLength: 12 }), (pieces) => {
        const buffer = createRequestBuffer();
        for (const piece of pieces) buffer.append(piece);
        assert.deepEqual(buffer.take(), Buffer.concat(pieces));
        assert.equal(buffer.take().length, 0);
      }),
    );
  });
});
