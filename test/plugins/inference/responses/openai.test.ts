/** Checks the surface with OpenAI's own client. */
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import {
  APIUserAbortError,
  BadRequestError,
  NotFoundError,
  OpenAI,
  RateLimitError,
  type APIError,
} from "openai";
import { ResponsesWS } from "openai/resources/responses/ws";
import type { ResponseInputItem } from "openai/resources/responses/responses";
import { tokenMilli } from "../chat/gateway.ts";
import {
  callDelta,
  deltas,
  model,
  networks,
  startResponses,
  type ResponsesGateway,
} from "./gateway.ts";

let gateway: ResponsesGateway;
let client: OpenAI;

/** Starts a gateway for the tests of a suite. */
function startFor(network: string): void {
  before(async () => {
    gateway = await startResponses({ network });
    client = clientOf(gateway.gateway.key);
  });
  after(() => gateway[Symbol.asyncDispose]());
}

function clientOf(apiKey: string): OpenAI {
  return new OpenAI({ baseURL: `${gateway.gateway.url}/v1`, apiKey, maxRetries: 0 });
}

const edit = {
  type: "function",
  name: "edit",
  description: "Edits a file.",
  parameters: { type: "object", properties: { path: { type: "string" } } },
  strict: null,
} as const;

async function failureOf(work: PromiseLike<unknown>): Promise<APIError> {
  try {
    await work;
  } catch (error) {
    // The caller checks the class.
    return error as APIError;
  }
  return assert.fail("the request must fail");
}

for (const [kind, network] of networks) {
  describe(`the openai client (${kind})`, { timeout: 60_000 }, () => {
    startFor(network);
    testClient(kind === "native");
  });
}

function testClient(isNative: boolean): void {
  it("reads a response with its text, usage and cost", async () => {
    const response = await client.responses.create({ model, input: "Hi", instructions: "Short." });
    assert.equal(response.output_text, "Hello world");
    assert.equal(response.status, "completed");
    assert.deepEqual(response.usage, {
      input_tokens: 5,
      input_tokens_details: { cached_tokens: 0 },
      output_tokens: 2,
      output_tokens_details: { reasoning_tokens: 0 },
      total_tokens: 7,
      usedCUMilli: 7 * tokenMilli,
    });
  });

  it("reads a stream with reasoning, text and calls, and its own snapshot agrees with the end", async () => {
    const begin = { id: "call_1", name: "edit" };
    gateway.worker.script(
      deltas([
        { reasoning_content: "hm" },
        { content: "I " },
        { content: "edit." },
        callDelta(0, '{"path":', begin),
        callDelta(0, '"a"}'),
      ]),
    );
    const stream = client.responses.stream({ model, input: "Hi", tools: [edit] });
    const types: string[] = [];
    let text = "";
    stream.on("event", ({ type }) => types.push(type));
    stream.on("response.output_text.delta", ({ delta }) => (text += delta));
    const final = await stream.finalResponse();
    assert.equal(text, "I edit.");
    assert.deepEqual(
      final.output.map(({ type }) => type),
      ["reasoning", "message", "function_call"],
    );
    assert.equal(types.at(-1), "response.completed");
    assert.equal(final.usage?.output_tokens, 2);
  });

  it("asks the worker in the API that it has", async () => {
    await client.responses.create({ model, input: "Hi" });
    const path = isNative ? "/v1/responses" : "/v1/chat/completions";
    assert.equal(gateway.worker.received.at(-1)?.path, path);
  });

  it("runs a tool and sends its whole conversation back", async () => {
    gateway.worker.script(
      deltas([
        { reasoning_content: "I need the file." },
        callDelta(0, '{"path":"a"}', { id: "call_1", name: "edit" }),
      ]),
    );
    const input: ResponseInputItem[] = [{ role: "user", content: "Edit a." }];
    const first = await client.responses
      .stream({ model, input, tools: [edit], include: ["reasoning.encrypted_content"] })
      .finalResponse();
    for (const item of first.output) {
      if (item.type === "function_call") {
        assert.deepEqual(JSON.parse(item.arguments), { path: "a" });
        input.push(item);
        input.push({ type: "function_call_output", call_id: item.call_id, output: "done" });
      } else if (item.type === "reasoning") {
        // Some clients keep the sealed text only. A worker with this API decides for itself whether it seals it.
        const { content: _, ...sealed } = item;
        assert.ok(!JSON.stringify(sealed).includes("file"));
        input.push(isNative ? item : sealed);
      }
    }
    const last = await client.responses.create({ model, input, tools: [edit] });
    assert.equal(last.output_text, "Hello world");
    const { body } = gateway.worker.received.at(-1) ?? assert.fail();
    if (isNative) return assert.deepEqual(body["input"], input);
    const call = {
      id: "call_1",
      type: "function",
      function: { name: "edit", arguments: '{"path":"a"}' },
    };
    assert.deepEqual(body["messages"], [
      { role: "user", content: "Edit a." },
      {
        role: "assistant",
        content: null,
        tool_calls: [call],
        reasoning_content: "I need the file.",
      },
      { role: "tool", content: "done", tool_call_id: "call_1" },
    ]);
  });

  it("gives up before the answer begins", async () => {
    const held = gateway.worker.hold();
    const controller = new AbortController();
    const asked = failureOf(
      client.responses.create({ model, input: "Hi" }, { signal: controller.signal }),
    );
    const worker = await held;
    controller.abort();
    assert.ok((await asked) instanceof APIUserAbortError);
    await worker.left;
  });
}

for (const [kind, network] of networks) {
  describe(`the error classes of the openai client (${kind})`, { timeout: 60_000 }, () => {
    startFor(network);
    testErrors();
  });
}

function testErrors(): void {
  it("tries no second time when the credit is used up", async () => {
    const { key } = await gateway.gateway.issue({ cuLimit24hMilli: 1 });
    let sent = 0;
    const counting: typeof fetch = (...args) => (sent++, fetch(...args));
    const baseURL = `${gateway.gateway.url}/v1`;
    const sdk = new OpenAI({ baseURL, apiKey: key, maxRetries: 3, fetch: counting });
    await assert.rejects(sdk.responses.create({ model, input: "Hi" }), RateLimitError);
    assert.equal(sent, 1);
  });

  it("says 426 if the client opens a WebSocket", async () => {
    const socket = new ResponsesWS(client);
    const { promise, resolve } = Promise.withResolvers<Error>();
    socket.on("error", resolve);
    assert.match((await promise).message, /426/);
  });

  it("NotFoundError for an unknown model, also if the request has tools", async () => {
    const error = await failureOf(
      client.responses.create({ model: "None/1", input: "Hi", tools: [edit] }),
    );
    assert.ok(error instanceof NotFoundError);
    assert.deepEqual([error.code, error.type], ["model_not_found", "invalid_request_error"]);
  });

  it("BadRequestError with the path of the member", async () => {
    const input = [{ type: "item_reference", id: "msg_1" }] as const;
    const error = await failureOf(client.responses.create({ model, input: [...input] }));
    assert.ok(error instanceof BadRequestError);
    assert.deepEqual([error.code, error.param], ["unsupported_parameter", "input[0].type"]);
    assert.match(error.message, /stores no items/);
  });

  it("BadRequestError for a prompt that is too long, with a known code", async () => {
    const problem = { error: { message: "maximum context length is 10 tokens. you requested 20" } };
    gateway.worker.script(async (exchange) => {
      exchange.begin(400, { "content-type": "application/json" });
      await exchange.push(JSON.stringify(problem));
      exchange.end();
    });
    const error = await failureOf(client.responses.create({ model, input: "Hi" }));
    assert.ok(error instanceof BadRequestError);
    assert.deepEqual([error.code, error.param], ["context_length_exceeded", "input"]);
  });
}
