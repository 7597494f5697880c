/** Checks the chat surface with LangChain's `ChatOpenAI`. */
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { ChatOpenAI } from "@langchain/openai";
import { failing, streamed } from "../plugins/inference/networks/worker-scripts.ts";
import { startChatGateway, type ChatTestGateway } from "./chat-clients.ts";

let gateway: ChatTestGateway;
before(async () => {
  gateway = await startChatGateway();
});
after(() => gateway[Symbol.asyncDispose]());

function modelOf(apiKey: string, model = "Test/Model-1"): ChatOpenAI {
  const { baseURL } = gateway;
  return new ChatOpenAI({ model, apiKey, maxRetries: 0, configuration: { baseURL } });
}

interface Thrown {
  readonly constructor: { readonly name: string };
  readonly status?: number;
  readonly lc_error_code?: string;
}

describe("LangChain's ChatOpenAI", { timeout: 20_000 }, () => {
  it("reads an unstreamed answer and its usage", async () => {
    const answer = await modelOf(gateway.key).invoke("Hi");
    assert.equal(answer.text, "Hello world");
    assert.equal(answer.response_metadata["finish_reason"], "stop");
    const { input_tokens, output_tokens, total_tokens } = answer.usage_metadata ?? {};
    assert.deepEqual([input_tokens, output_tokens, total_tokens], [5, 2, 7]);
  });

  it("reads a stream and the usage at its end", async () => {
    let said = "";
    let total: number | undefined;
    for await (const chunk of await modelOf(gateway.key).stream("Hi")) {
      said += chunk.text;
      total = chunk.usage_metadata?.total_tokens ?? total;
    }
    assert.equal(said, "Hello world");
    assert.equal(total, 7);
  });

  it("binds tools, which are ignored", async () => {
    const parameters = { type: "object", properties: {} };
    const bound = modelOf(gateway.key).bindTools([
      { type: "function", function: { name: "f", description: "f", parameters } },
    ]);
    const answer = await bound.invoke("Hi");
    assert.equal(answer.text, "Hello world");
    assert.deepEqual(answer.tool_calls, []);
    assert.equal(gateway.worker.received.at(-1)?.body["tools"], undefined);
  });

  it("stops a stream: the request to the worker ends, and the part that arrived is charged", async () => {
    const earlier = gateway.charges().length;
    const held = gateway.worker.hold();
    const leaving = new AbortController();
    const reading = (async () => {
      const stream = await modelOf(gateway.key).stream("Hi", { signal: leaving.signal });
      for await (const chunk of stream) if (chunk.text === "Hello") leaving.abort();
    })();
    const stopped = assert.rejects(reading);
    const worker = await held;
    await streamed({ stop: { after: 2, how: "silence" } })(worker);
    await worker.left;
    await stopped;
    const charge = (await gateway.charged(earlier + 1)).at(-1);
    assert.equal(charge?.outcome, "clientLeft");
    // decisions.md section 3: the larger of one chunk and 5 bytes / 4, rounded up.
    assert.equal(charge.outputTokens, 2);
  });

  it("throws the client's exception for every refusal, with LangChain's code where it has one", async () => {
    const thrownBy = async (model: ChatOpenAI): Promise<unknown[]> => {
      try {
        await model.invoke("Hi");
      } catch (error) {
        // Callers read these members, regardless of the class of the error.
        const { constructor, status, lc_error_code: code } = error as Thrown;
        return [constructor.name, status, code];
      }
      return ["answered"];
    };
    const { key, worker } = gateway;
    const auth = await thrownBy(modelOf(gateway.unknownKey));
    assert.deepEqual(auth, ["AuthenticationError", 401, "MODEL_AUTHENTICATION"]);
    const forbidden = await thrownBy(modelOf(gateway.forbiddenKey));
    assert.deepEqual(forbidden, ["PermissionDeniedError", 403, undefined]);
    const poor = await thrownBy(modelOf(gateway.poorKey));
    assert.deepEqual(poor, ["RateLimitError", 429, "MODEL_RATE_LIMIT"]);
    const missing = await thrownBy(modelOf(key, "No/Model-1"));
    assert.deepEqual(missing, ["NotFoundError", 404, "MODEL_NOT_FOUND"]);
    worker.script(failing(400));
    const wrong = await thrownBy(modelOf(key));
    assert.deepEqual(wrong, ["BadRequestError", 400, undefined]);
    worker.script(failing(500));
    const failed = await thrownBy(modelOf(key));
    assert.deepEqual(failed, ["InternalServerError", 503, undefined]);
  });

  it("throws if a stream breaks off", async () => {
    gateway.worker.script(streamed({ stop: { after: 2, how: "cut" } }));
    let said = "";
    const reading = (async () => {
      for await (const chunk of await modelOf(gateway.key).stream("Hi")) said += chunk.text;
    })();
    await assert.rejects(reading);
    assert.equal(said, "Hello");
  });
});
