/** Tests of an API for completions with a chat model of LangChain. */
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import type { ChatAnthropic } from "@langchain/anthropic";
import type { ChatOpenAI } from "@langchain/openai";
import { model, tokenMilli, type ChatGateway } from "../chat/gateway.ts";
import { chunkOf, eventOf } from "../networks/chat-events.ts";
import { failing, workerSecret } from "../networks/worker-scripts.ts";
import { callDelta, deltas, message } from "../responses/gateway.ts";

type ChatModel = Pick<ChatOpenAI | ChatAnthropic, "invoke" | "stream" | "bindTools"> & {
  withStructuredOutput(
    schema: object,
    config: { method: "jsonSchema" },
  ): {
    invoke(input: string): Promise<unknown>;
  };
};

/** Returns a model at this gateway. Every request has at most 100 tokens and is sent once. */
type ModelOf = (url: string, key: string, name: string) => ChatModel;

/** Members of LangChain's errors. */
interface Thrown {
  readonly status?: number;
  readonly lc_error_code?: string;
  readonly message: string;
}

const inputSchema = {
  type: "object",
  properties: { n: { type: "number" } },
  required: ["n"],
  additionalProperties: false,
};

interface Judged {
  /** The class and the API. */
  readonly title: string;
  readonly start: () => Promise<ChatGateway>;
  readonly modelOf: ModelOf;
  /** Whether the class throws when the last event of a stream reports a failure. */
  readonly readsFailure: boolean;
}

export function testLangChain({ title, start, modelOf, readsFailure }: Judged): void {
  describe(`LangChain's ${title}`, { timeout: 60_000 }, () => {
    let gateway: ChatGateway;
    before(async () => {
      gateway = await start();
    });
    after(() => gateway[Symbol.asyncDispose]());
    const at = (key = gateway.gateway.key, name = model): ChatModel =>
      modelOf(gateway.gateway.url, key, name);

    it("reads an answer in one piece, and its usage", async () => {
      const answer = await at().invoke("Hi");
      const { input_tokens, output_tokens, total_tokens } = answer.usage_metadata ?? {};
      assert.equal(answer.text, "Hello world");
      assert.deepEqual([input_tokens, output_tokens, total_tokens], [5, 2, 7]);
    });

    it("reads a stream and its usage", async () => {
      let text = "";
      let tokens = 0;
      for await (const chunk of await at().stream("Hi")) {
        text += chunk.text;
        tokens += chunk.usage_metadata?.output_tokens ?? 0;
      }
      assert.deepEqual([text, tokens], ["Hello world", 2]);
    });

    it("calls a tool in a stream, and sends its result", async () => {
      const add = { name: "add", description: "Adds one.", schema: inputSchema };
      const bound = at().bindTools([add]);
      const calls = [
        { role: "assistant", content: "" },
        callDelta(0, '{"n"', { id: "call_1", name: "add" }),
        callDelta(0, ":2}"),
      ];
      gateway.worker.script(deltas(calls, "tool_calls"));
      const pieces = await Array.fromAsync(await bound.stream("Add"));
      const asked = pieces.reduce((whole, piece) => whole.concat(piece));
      assert.deepEqual(
        asked.tool_calls?.map(({ id, name, args }) => [id, name, args]),
        [["call_1", "add", { n: 2 }]],
      );
      const result = { role: "tool", tool_call_id: "call_1", content: "3" };
      const answer = await bound.invoke([{ role: "user", content: "Add" }, asked, result]);
      assert.equal(answer.text, "Hello world");
      const { messages, tools } = bodyOf(gateway);
      assert.equal(tools[0].function.name, "add");
      assert.deepEqual(messages[1].tool_calls[0].function, { name: "add", arguments: '{"n":2}' });
      assert.deepEqual(messages[2], { role: "tool", content: "3", tool_call_id: "call_1" });
    });

    it("reads structured output", async () => {
      gateway.worker.script(message({ content: '{"n":7}' }));
      const read = at().withStructuredOutput(inputSchema, { method: "jsonSchema" });
      assert.deepEqual(await read.invoke("Count"), { n: 7 });
      const { schema } = bodyOf(gateway).response_format.json_schema;
      assert.deepEqual(schema.properties, { n: { type: "number" } });
    });

    it("stops a stream: the request to the worker ends, and the part that arrived is charged", async () => {
      const earlier = gateway.charges().length;
      const held = gateway.worker.hold();
      const leaving = new AbortController();
      const reading = (async () => {
        const stream = await at().stream("Hi", { signal: leaving.signal });
        for await (const { text } of stream) if (text === "x") leaving.abort();
      })();
      const stopped = assert.rejects(reading);
      const worker = await held;
      worker.begin();
      await worker.push(eventOf(chunkOf({ content: "x" })));
      await worker.left;
      await stopped;
      const row = (await gateway.charged(earlier + 1)).at(-1);
      assert.deepEqual([row?.outcome, row?.usedMilliCu], ["clientLeft", 2 * tokenMilli]);
    });

    it("throws for every refusal, with LangChain's code if it has one", async () => {
      const { gateway: own, worker } = gateway;
      const thrownBy = async (chat: ChatModel): Promise<unknown[]> => {
        try {
          await chat.invoke("Hi");
        } catch (error) {
          // Callers read these members, regardless of the class of the error.
          const { status, lc_error_code: code, message: text } = error as Thrown;
          assert.ok(!text.includes(workerSecret));
          return [status, code];
        }
        return ["answered"];
      };
      const unknown = await thrownBy(at(`gateway_dev_${"0".repeat(32)}`));
      assert.deepEqual(unknown, [401, "MODEL_AUTHENTICATION"]);
      const forbidden = await thrownBy(at((await own.issue({ capabilities: [] })).key));
      assert.deepEqual(forbidden, [403, undefined]);
      const poor = await thrownBy(at((await own.issue({ cuLimit24hMilli: 1 })).key));
      assert.deepEqual(poor, [429, "MODEL_RATE_LIMIT"]);
      assert.deepEqual(await thrownBy(at(own.key, "No/Model-1")), [404, "MODEL_NOT_FOUND"]);
      worker.script(failing(400));
      assert.deepEqual(await thrownBy(at()), [400, undefined]);
      worker.script(failing(500));
      assert.deepEqual(await thrownBy(at()), [503, undefined]);
    });

    const ends = readsFailure ? "throws" : "ends without a status, and does not throw,";
    it(`${ends} if a stream breaks off`, async () => {
      gateway.worker.script(async (exchange) => {
        exchange.begin();
        await exchange.push(eventOf(chunkOf({ content: "x" })));
        exchange.cut();
      });
      let text = "";
      let status: unknown;
      const reading = (async () => {
        for await (const chunk of await at().stream("Hi")) {
          text += chunk.text;
          status ??= chunk.response_metadata["status"];
        }
      })();
      if (readsFailure) await assert.rejects(reading);
      else await reading;
      assert.deepEqual([text, status], ["x", undefined]);
    });
  });
}

// oxlint-disable-next-line typescript/no-explicit-any -- as `Answer.json`
function bodyOf({ worker }: ChatGateway): any {
  return worker.received.at(-1)?.body;
}
