/** Checks the Messages API with Anthropic's SDK, in both versions of the API and with both headers for the key. */
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import Anthropic, {
  BadRequestError,
  ContentTooLargeError,
  NotFoundError,
  RateLimitError,
} from "@anthropic-ai/sdk";
import { eventsFor } from "../networks/native-events.ts";
import { model, tokenMilli } from "../chat/gateway.ts";
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

/** Starts a gateway for the tests of a suite. */
function startFor(network: string): void {
  before(async () => {
    gateway = await startMessages({ network });
  });
  after(() => gateway[Symbol.asyncDispose]());
}

type How = "Bearer" | "x-api-key";
type Version = "2023-06-01" | "2026-10-21";

function client(how: How, version: Version, key = gateway.gateway.key): Anthropic {
  return new Anthropic({
    baseURL: gateway.gateway.url,
    authToken: null,
    apiKey: how === "Bearer" ? key : null,
    maxRetries: 0,
    defaultHeaders: {
      "anthropic-version": version,
      ...(how === "x-api-key" && { "x-api-key": key, authorization: null }),
    },
  });
}

for (const [how, version] of [
  ["Bearer", "2026-10-21"],
  ["Bearer", "2023-06-01"],
  ["x-api-key", "2026-10-21"],
  ["x-api-key", "2023-06-01"],
] as const) {
  for (const [kind, network] of networks) {
    describe(`Anthropic's SDK with ${how}, version ${version} (${kind})`, inTime, () => {
      startFor(network);
      testSdk(how, version);
    });
  }
}

function testSdk(how: How, version: Version): void {
  it("reads a message with its usage and its cost", async () => {
    const answer = await client(how, version).messages.create(basic);
    assert.deepEqual(answer.content, [{ type: "text", text: "Hello world" }]);
    assert.equal(answer.stop_reason, "end_turn");
    assert.deepEqual([answer.usage.input_tokens, answer.usage.output_tokens], [5, 2]);
    const { usedCUMilli } = answer.usage as { usedCUMilli?: number };
    assert.equal(usedCUMilli, 7 * tokenMilli);
    assert.match(answer._request_id ?? "", /.+/);
  });

  it("counts tokens", async () => {
    const earlier = gateway.charges().length;
    const { input_tokens: count } = await client(how, version).messages.countTokens({
      model,
      messages: [{ role: "user", content: "x".repeat(30) }],
    });
    // A third of 30 bytes, and 8 for the message.
    assert.equal(count, 18);
    assert.equal(gateway.charges().length, earlier);
  });
}

for (const [kind, network] of networks) {
  describe(`Anthropic's SDK (${kind})`, inTime, () => {
    startFor(network);
    testFailures();
  });
}

function testFailures(): void {
  it("lists the models and shows one", async () => {
    const sdk = client("Bearer", "2026-10-21");
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
    const { messages } = client("Bearer", "2023-06-01");
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

  it("tries no second time when the credit is used up", async () => {
    const { key } = await gateway.gateway.issue({ cuLimit24hMilli: 1 });
    let sent = 0;
    const counting: typeof fetch = (...args) => (sent++, fetch(...args));
    const sdk = new Anthropic({
      baseURL: gateway.gateway.url,
      apiKey: key,
      maxRetries: 3,
      fetch: counting,
    });
    await assert.rejects(sdk.messages.create(basic), RateLimitError);
    assert.equal(sent, 1);
  });

  it("fails a stream that breaks with the error of its event", async () => {
    const held = gateway.worker.hold();
    const stream = client("Bearer", "2026-10-21").messages.stream(basic);
    const failed = assert.rejects(stream.finalMessage(), /the model could not answer/);
    const worker = await held;
    worker.begin();
    await worker.push(eventsFor(worker).delta({ content: "x" }));
    worker.cut();
    await failed;
  });
}
