/** Checks the Messages API with Anthropic's SDK. See also test/clients. */
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import Anthropic, { BadRequestError, ContentTooLargeError, NotFoundError } from "@anthropic-ai/sdk";
import { model } from "../chat/gateway.ts";
import { networks, startMessages, type MessagesGateway } from "./gateway.ts";

const inTime = { timeout: 60_000 };
const question = { role: "user", content: "Hi" } as const;
const basic = { model, max_tokens: 100, messages: [question] };
const edit = {
  name: "edit",
  description: "Edits a file.",
  input_schema: { type: "object" as const, properties: { path: { type: "string" } } },
};

let gateway: MessagesGateway;

function client(version: "2023-06-01" | "2026-10-21"): Anthropic {
  const { url, key } = gateway.gateway;
  return new Anthropic({
    baseURL: url,
    authToken: null,
    apiKey: key,
    maxRetries: 0,
    defaultHeaders: { "anthropic-version": version },
  });
}

for (const [kind, network] of networks) {
  describe(`Anthropic's SDK (${kind})`, inTime, () => {
    before(async () => {
      gateway = await startMessages({ network });
    });
    after(() => gateway[Symbol.asyncDispose]());
    testSdk();
  });
}

function testSdk(): void {
  it("counts tokens", async () => {
    const earlier = gateway.charges().length;
    const messages = [{ role: "user", content: "x".repeat(30) } as const];
    for (const version of ["2023-06-01", "2026-10-21"] as const) {
      const { input_tokens: count } = await client(version).messages.countTokens({
        model,
        messages,
      });
      // A third of 30 bytes, and 8 for the message.
      assert.equal(count, 18);
    }
    assert.equal(gateway.charges().length, earlier);
  });

  it("lists the models and shows one", async () => {
    const sdk = client("2026-10-21");
    const { data, has_more: hasMore, first_id: first, last_id: last } = await sdk.models.list();
    const [{ created_at: created, ...rest } = assert.fail("no model"), ...more] = data;
    assert.deepEqual(more, []);
    assert.deepEqual({ ...rest }, { type: "model", id: model, display_name: model });
    assert.equal(new Date(created).toISOString(), created);
    assert.deepEqual([hasMore, first, last], [false, model, model]);
    const shown = await sdk.models.retrieve(model);
    assert.deepEqual({ ...shown }, { ...data[0] });
    await assert.rejects(sdk.models.retrieve("No/Such-1"), NotFoundError);
  });

  it("maps a body that is too large, and a tool that would run elsewhere, to its classes", async () => {
    const { messages } = client("2023-06-01");
    const huge = [{ role: "user" as const, content: "x".repeat(11 << 20) }];
    await assert.rejects(messages.create({ ...basic, messages: huge }), (error) => {
      assert.ok(error instanceof ContentTooLargeError);
      assert.equal(error.type, "request_too_large");
      return true;
    });
    const server = { type: "web_search_20250305", name: "web_search" } as const;
    await assert.rejects(messages.create({ ...basic, tools: [edit, server] }), (error) => {
      assert.ok(error instanceof BadRequestError);
      assert.match(
        error.message,
        /"message":"tools\.1\.type: .*web_search_20250305.* is not supported/,
      );
      return true;
    });
  });
}
