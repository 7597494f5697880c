/** Checks the Messages API with Anthropic's SDK, in both versions of the API and with both headers for the key. */
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import Anthropic, {
  APIError,
  APIUserAbortError,
  AuthenticationError,
  BadRequestError,
  ContentTooLargeError,
  InternalServerError,
  NotFoundError,
  PermissionDeniedError,
  RateLimitError,
} from "@anthropic-ai/sdk";
import { jsonSchemaOutputFormat } from "@anthropic-ai/sdk/helpers/json-schema";
import { eventsFor } from "../networks/native-events.ts";
import { failing } from "../networks/worker-scripts.ts";
import { model, tokenMilli } from "../chat/gateway.ts";
import { deltas, message, networks, startMessages, type MessagesGateway } from "./gateway.ts";

const inTime = { timeout: 60_000 };
const question = { role: "user", content: "Hi" } as const;
const chatPath = "/v1/chat/completions";
const basic = { model, max_tokens: 100, messages: [question] };
const edit = {
  name: "edit",
  description: "Edits a file.",
  input_schema: { type: "object" as const, properties: { path: { type: "string" } } },
};
const called = {
  index: 0,
  id: "call_1",
  type: "function",
  function: { name: "edit", arguments: '{"path":"a.txt"}' },
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
      testSdk(how, version, kind === "native");
    });
  }
}

function testSdk(how: How, version: Version, isNative: boolean): void {
  it("reads a message with its usage and its cost", async () => {
    const answer = await client(how, version).messages.create(basic);
    assert.deepEqual(answer.content, [{ type: "text", text: "Hello world" }]);
    assert.equal(answer.stop_reason, "end_turn");
    assert.deepEqual([answer.usage.input_tokens, answer.usage.output_tokens], [5, 2]);
    const { usedCUMilli } = answer.usage as { usedCUMilli?: number };
    assert.equal(usedCUMilli, 7 * tokenMilli);
    assert.match(answer._request_id ?? "", /.+/);
  });

  it("reads a stream", async () => {
    const stream = client(how, version).messages.stream(basic);
    const texts: string[] = [];
    stream.on("text", (text) => void texts.push(text));
    const answer = await stream.finalMessage();
    assert.deepEqual(texts, ["Hello", " world"]);
    assert.deepEqual([answer.usage.input_tokens, answer.usage.output_tokens], [5, 2]);
  });

  it("calls a tool and sends its result, whole and streamed", async () => {
    const sdk = client(how, version);
    gateway.worker.script(message({ tool_calls: [called] }, "tool_calls"));
    const first = await sdk.messages.create({ ...basic, tools: [edit] });
    assert.equal(first.stop_reason, "tool_use");
    const use = {
      type: "tool_use" as const,
      id: "call_1",
      name: "edit",
      input: { path: "a.txt" },
    };
    assert.deepEqual(first.content, [use]);
    const head = { ...called, function: { name: "edit", arguments: "" } };
    const rest = ['{"path":', '"a.txt"}'].map((text) => ({
      index: 0,
      function: { arguments: text },
    }));
    gateway.worker.script(
      deltas(
        [head, ...rest].map((call) => ({ tool_calls: [call] })),
        "tool_calls",
      ),
    );
    const streamed = await sdk.messages.stream({ ...basic, tools: [edit] }).finalMessage();
    assert.deepEqual(streamed.content, [use]);
    await sdk.messages.create({
      ...basic,
      tools: [edit],
      messages: [
        question,
        { role: "assistant", content: streamed.content },
        {
          role: "user",
          content: [{ type: "tool_result", tool_use_id: "call_1", content: "done" }],
        },
      ],
    });
    const { index: _, ...call } = called;
    assert.equal(gateway.worker.received.at(-1)?.path, isNative ? "/v1/messages" : chatPath);
    if (isNative) {
      const [, answer, result] = gateway.lastBody().messages;
      assert.deepEqual(answer.content, streamed.content);
      return assert.equal(result.content[0].tool_use_id, "call_1");
    }
    assert.deepEqual(gateway.lastBody().messages, [
      question,
      { role: "assistant", content: null, tool_calls: [call] },
      { role: "tool", content: "done", tool_call_id: "call_1" },
    ]);
  });

  it("parses structured output", async () => {
    const schema = { type: "object", properties: { n: { type: "number" } } } as const;
    gateway.worker.script(message({ content: '{"n":7}' }));
    const { parsed_output } = await client(how, version).messages.parse({
      ...basic,
      output_config: { format: jsonSchemaOutputFormat(schema) },
    });
    assert.deepEqual(parsed_output, { n: 7 });
    const { response_format: format, output_config: config } = gateway.lastBody();
    if (isNative) return assert.equal(config.format.schema.properties.n.type, "number");
    assert.equal(format.type, "json_schema");
    assert.equal(format.json_schema.schema.properties.n.type, "number");
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

  it("aborts a stream: the request to the worker ends, and the part that arrived is charged", async () => {
    const earlier = gateway.charges().length;
    const held = gateway.worker.hold();
    const stream = client("Bearer", "2026-10-21").messages.stream(basic);
    const failed = assert.rejects(stream.done(), APIUserAbortError);
    const worker = await held;
    worker.begin();
    await worker.push(eventsFor(worker).delta({ content: "x" }));
    await new Promise((resolve) => void stream.once("text", resolve));
    stream.abort();
    await failed;
    await worker.left;
    const row = (await gateway.charged(earlier + 1)).at(-1);
    assert.deepEqual([row?.outcome, row?.usedMilliCu], ["clientLeft", 2 * tokenMilli]);
  });

  it("maps errors to its classes, and shows their messages", async () => {
    const sdk = client("Bearer", "2023-06-01");
    const failed = async (
      asked: Promise<unknown>,
      Class: new (...args: never[]) => Error,
      type: string,
    ): Promise<InstanceType<typeof APIError>> => {
      const error: unknown = await asked.then(
        () => assert.fail("not refused"),
        (e: unknown) => e,
      );
      assert.ok(error instanceof APIError && error instanceof Class, String(error));
      assert.equal(error.type, type);
      assert.match(error.requestID ?? "", /.+/);
      assert.ok(error.headers?.get("x-sluice-error"));
      return error;
    };
    const issue = (wanted: Parameters<typeof gateway.gateway.issue>[0]) =>
      gateway.gateway.issue(wanted);
    const with_ = (key: string): Promise<unknown> =>
      client("x-api-key", "2023-06-01", key).messages.create(basic);
    await failed(
      with_(`gateway_dev_${"0".repeat(32)}`),
      AuthenticationError,
      "authentication_error",
    );
    await failed(with_(issue({ capabilities: [] }).key), PermissionDeniedError, "permission_error");
    const poor = await failed(
      with_(issue({ cuLimit24hMilli: 1 }).key),
      RateLimitError,
      "rate_limit_error",
    );
    assert.equal(poor.headers?.get("x-should-retry"), "false");
    assert.equal(poor.headers?.get("retry-after"), "60");
    assert.equal(poor.headers?.get("x-sluice-error"), "GATEWAY_CU_LIMIT_EXCEEDED");
    const create = (members: object): Promise<unknown> =>
      sdk.messages.create({ ...basic, ...members });
    await failed(create({ model: "No/Such-1" }), NotFoundError, "not_found_error");
    const huge = [{ role: "user", content: "x".repeat(11 << 20) }];
    await failed(create({ messages: huge }), ContentTooLargeError, "request_too_large");
    const server = { type: "web_search_20250305", name: "web_search" };
    const wrong = await failed(
      create({ tools: [edit, server] }),
      BadRequestError,
      "invalid_request_error",
    );
    assert.match(
      wrong.message,
      /"message":"tools\.1\.type: .*web_search_20250305.* is not supported/,
    );
    gateway.worker.script(failing(500));
    const broken = await failed(create({}), InternalServerError, "overloaded_error");
    assert.deepEqual([broken.status, broken.headers?.get("retry-after")], [503, "5"]);
    assert.doesNotMatch(broken.message, /secret-of-the-worker/);
  });

  it("tries no second time when the credit is used up", async () => {
    const { key } = gateway.gateway.issue({ cuLimit24hMilli: 1 });
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
