/** Checks the chat surface with OpenAI's own client. */
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { OpenAI, APIConnectionTimeoutError, APIUserAbortError, AuthenticationError } from "openai";
import { silent, streamed, usageOf, whole } from "../plugins/inference/networks/worker-scripts.ts";
import { tokenMilli } from "../plugins/inference/chat/gateway.ts";
import { messages, startChatGateway, type ChatTestGateway } from "./chat-clients.ts";

const model = "Test/Model-1";
const usage = {
  prompt_tokens: 5,
  completion_tokens: 2,
  total_tokens: 7,
  usedCUMilli: 7 * tokenMilli,
};

let gateway: ChatTestGateway;
let client: OpenAI;
before(async () => {
  gateway = await startChatGateway();
  client = clientOf(gateway.key);
});
after(() => gateway[Symbol.asyncDispose]());

function clientOf(apiKey: string, options: { timeout?: number } = {}): OpenAI {
  return new OpenAI({
    baseURL: gateway.baseURL,
    apiKey,
    organization: "org-ignored",
    maxRetries: 0,
    ...options,
  });
}

describe("the openai client", { timeout: 20_000 }, () => {
  it("reads an unstreamed answer with its usage and its cost", async () => {
    const answer = await client.chat.completions.create({ model, messages });
    assert.equal(answer.choices[0]?.message.content, "Hello world");
    assert.equal(answer.choices[0].finish_reason, "stop");
    assert.equal(answer.model, model);
    assert.deepEqual(answer.usage, usage);
  });

  // Finding D10: docs/inference.md says which parts of the canonical envelope the client shows.
  it("shows the message, the class and the request id of an error of the gateway itself", async () => {
    const wrong = clientOf(`gateway_dev_${"0".repeat(32)}`);
    const error = await wrong.models.list().then(
      () => assert.fail("the key is wrong"),
      (reason: unknown) => reason,
    );
    assert.ok(error instanceof AuthenticationError);
    assert.deepEqual(
      [error.status, error.error, error.code, error.type],
      [401, "unauthorized", undefined, undefined],
    );
    assert.ok((error.requestID ?? "").length > 0);
  });

  it("reads a stream and the usage at its end", async () => {
    const stream = await client.chat.completions.create({
      model,
      messages,
      stream: true,
      stream_options: { include_usage: true },
    });
    let said = "";
    let reported: unknown;
    for await (const chunk of stream) {
      said += chunk.choices[0]?.delta.content ?? "";
      reported = chunk.usage ?? reported;
    }
    assert.equal(said, "Hello world");
    assert.deepEqual(reported, usage);
  });

  it("collects a stream with the client's own helper, although it contains reasoning", async () => {
    gateway.worker.script(streamed({ reasoning: ["Hm."] }));
    const runner = client.chat.completions.stream({
      model,
      messages,
      stream_options: { include_usage: true },
    });
    const final = await runner.finalChatCompletion();
    assert.equal(final.choices[0]?.message.content, "Hello world");
    assert.equal(final.choices[0].finish_reason, "stop");
    assert.equal(final.usage?.completion_tokens, 3);
  });

  it("sends tools, response formats and sampling parameters, which are ignored", async () => {
    const answer = await client.chat.completions.create({
      model,
      messages,
      tools: [{ type: "function", function: { name: "f", parameters: { type: "object" } } }],
      tool_choice: "required",
      response_format: { type: "json_object" },
      temperature: 0,
      n: 2,
      seed: 1,
      logprobs: true,
      max_completion_tokens: 50,
    });
    assert.equal(answer.choices.length, 1);
    assert.equal(answer.choices[0]?.message.tool_calls, undefined);
    const { body } = gateway.worker.received.at(-1) ?? { body: {} };
    assert.deepEqual(Object.keys(body), [
      "model",
      "messages",
      "max_tokens",
      "stream",
      "chat_template_kwargs",
    ]);
  });

  it("stops a stream: the request to the worker ends, and the part that arrived is charged", async () => {
    const earlier = gateway.charges().length;
    const held = gateway.worker.hold();
    const opening = client.chat.completions.create({ model, messages, stream: true });
    const worker = await held;
    await streamed({ stop: { after: 2, how: "silence" } })(worker);
    for await (const chunk of await opening) if (chunk.choices[0]?.delta.content === "Hello") break;
    await worker.left;
    const charge = (await gateway.charged(earlier + 1)).at(-1);
    assert.equal(charge?.outcome, "clientLeft");
    // decisions.md section 3: the larger of one chunk and 5 bytes / 4, rounded up.
    assert.equal(charge.outputTokens, 2);
  });

  it("can abort a request before its answer, and enforces its own timeout", async () => {
    const aborted = new AbortController();
    const held = gateway.worker.hold();
    const asking = client.chat.completions.create({ model, messages }, { signal: aborted.signal });
    const { left } = await held;
    aborted.abort();
    await assert.rejects(asking, APIUserAbortError);
    await left;
    gateway.worker.script(silent);
    const hasty = clientOf(gateway.key, { timeout: 50 }).chat.completions.create({
      model,
      messages,
    });
    await assert.rejects(hasty, APIConnectionTimeoutError);
    await gateway.worker.idle();
  });

  it("lists the models by paging through the list", async () => {
    const listed = [];
    for await (const each of client.models.list()) listed.push(each);
    assert.deepEqual(
      listed.map(({ id, object, owned_by: owner }) => [id, object, owner]),
      [[model, "model", "classic"]],
    );
  });

  it("pins a network by its base URL", async () => {
    const pinned = new OpenAI({
      baseURL: `${gateway.gateway.url}/classic/v1`,
      apiKey: gateway.key,
      maxRetries: 0,
    });
    gateway.worker.script(whole({ usage: usageOf(1, 1) }));
    const { usage: reported } = await pinned.chat.completions.create({ model, messages });
    assert.equal(reported?.total_tokens, 2);
    assert.equal((await pinned.models.list()).data.length, 1);
  });
});
