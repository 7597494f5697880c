/**
 * Model servers that write without end or against the format, over each API for completions. One exchange fails at
 * most: twelve other streams of the same worker are open meanwhile, and complete with their own texts and charges.
 */
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import type { TestKey } from "../../../../plugins/contracts/testing.ts";
import { chunksOf, model, startChat, tokenMilli, type ChatGateway } from "../chat/gateway.ts";
import { assertEvents as assertMessage } from "../messages/check-stream.ts";
import { eventsOf as messageEventsOf } from "../messages/gateway.ts";
import { chunkOf, dataOf, eventOf, usageChunkOf } from "../networks/chat-events.ts";
import type { Script } from "../networks/scripted-worker.ts";
import { raw, usageOf, whole, workerSecret } from "../networks/worker-scripts.ts";
import { assertEvents as assertResponse } from "../responses/check-stream.ts";
import { callDelta, deltas, eventsOf as responseEventsOf } from "../responses/gateway.ts";

const maxTokens = 100;
/** The prompt and the tools are less than 1,000 tokens. */
const maxMilli = (maxTokens + 1_000) * tokenMilli;
const prompts = Array.from({ length: 12 }, (_, n) => `The stream number ${n} of them.`);

interface Api {
  readonly path: string;
  body(prompt: string): object;
  read(stream: string): { readonly text: string; readonly usedMilli: number };
  readonly end: RegExp;
}

const messagesOf = (prompt: string): object => ({ messages: [{ role: "user", content: prompt }] });
const apis: Readonly<Record<string, Api>> = {
  chat: {
    path: "/v1/chat/completions",
    body: (prompt) => ({
      ...messagesOf(prompt),
      max_tokens: maxTokens,
      tools: [{ type: "function", function: { name: "f" } }],
      stream_options: { include_usage: true },
    }),
    read(stream) {
      const chunks = chunksOf(dataOf(stream));
      const text = chunks.map(({ choices }) => choices[0]?.delta.content ?? "").join("");
      return { text, usedMilli: chunks.at(-1).usage.usedCUMilli };
    },
    end: /^data: (?:\[DONE\]|\{"error":)/gm,
  },
  responses: {
    path: "/v1/responses",
    body: (input) => ({
      input,
      max_output_tokens: maxTokens,
      tools: [{ type: "function", name: "f" }],
    }),
    read(stream) {
      const { output, usage, status } = assertResponse(responseEventsOf(stream));
      assert.equal(status, "completed");
      return { text: output[0].content[0].text, usedMilli: usage.usedCUMilli };
    },
    end: /^event: response\.(?:completed|incomplete|failed)$/gm,
  },
  messages: {
    path: "/v1/messages",
    body: (prompt) => ({
      ...messagesOf(prompt),
      max_tokens: maxTokens,
      tools: [{ name: "f", input_schema: { type: "object" } }],
    }),
    read(stream) {
      const { blocks, end } = assertMessage(messageEventsOf(stream));
      return { text: blocks.map(({ text }) => text).join(), usedMilli: end?.["usage"].usedCUMilli };
    },
    end: /^event: (?:message_stop|error)$/gm,
  },
};

const content = eventOf(chunkOf({ content: "word " }));
const done = eventOf(chunkOf({}, { finishReason: "stop" })) + eventOf("[DONE]");
const first = { id: "call_1", name: "f" };

function endless(pieceAt: (at: number) => string): Script {
  return async (exchange) => {
    exchange.begin();
    for (let at = 0; (await exchange.push(pieceAt(at))) === "taken"; at++);
  };
}

const prototype =
  'data: {"__proto__":{"usage":1},"constructor":1,"choices":[{"index":0,"delta":{"__proto__":{"content":"x"},"tool_calls":[{"__proto__":1}]}}]}\n\n';
const hostileScripts: Readonly<Record<string, Script>> = {
  "continues a call after its end": deltas([
    callDelta(0, "{}", first),
    { content: "x" },
    callDelta(0, "{}"),
  ]),
  "opens calls without end": endless((at) =>
    eventOf(chunkOf(callDelta(at, "", { id: `c${at}`, name: "f" }))).repeat(20),
  ),
  "writes long chunks without end": endless(() => eventOf(chunkOf({ content: "x".repeat(1e4) }))),
  "writes empty choices without end": endless(() => eventOf(chunkOf({})).repeat(100)),
  "writes thoughts without end": endless(() => eventOf(chunkOf({ reasoning: "hm" })).repeat(100)),
  "writes all of it at once": raw(200, {}, [content.repeat(5_000) + done]),
  "writes a million words": whole({ tokens: ["word ".repeat(1_000_000)] }),
  "compresses them": raw(200, {}, [content.repeat(50_000) + done], true),
  "is deeply nested": raw(200, {}, [`data: {"choices":${"[".repeat(100_000)}\n\n`]),
  "has names of Object.prototype": raw(200, {}, [prototype, done]),
  "goes on after its end": raw(200, {}, [content + done, content.repeat(100) + done]),
  "ends its head oddly": raw(200, { "content-length": "3" }, ["abc"]),
};

let chat: ChatGateway;
/** One for each stream and one for the hostile exchange, because a workspace may send 200 requests per second. */
let keys: readonly TestKey[];
before(async () => {
  chat = await startChat({ network: "passes: [tools], idleMs: 20000, answerMs: 20000" });
  keys = await Promise.all([...prompts, "hostile"].map(() => chat.gateway.issue({})));
});
after(() => chat[Symbol.asyncDispose]());

const all = Object.values(apis);
const apiOf = (at: number): Api => all[at % all.length] ?? assert.fail();

describe("beside streams over every API, a model server that", { timeout: 60_000 }, () => {
  for (const [what, script] of Object.entries(hostileScripts)) {
    it(`${what} fails one exchange at most`, async () => {
      const complete = await openStreams();
      for (const api of all) {
        const earlier = chat.charges().length;
        for (const stream of [true, false]) await meetHostile(api, script, stream);
        const charges = chat.charges().slice(earlier);
        assert.ok(charges.length <= 2);
        for (const { usedMilliCu } of charges) assert.ok(usedMilliCu <= maxMilli);
      }
      await complete();
    });
  }
});

/** Starts a stream per prompt. The returned function sends the rest, and asserts each client's own text and charge. */
async function openStreams(): Promise<() => Promise<void>> {
  const held = prompts.map(() => chat.worker.hold());
  const asked = prompts.map((prompt, at) => post(apiOf(at), prompt, true, keys[at]));
  const exchanges = await Promise.all(held);
  for (const exchange of exchanges) {
    const prompt = prompts.find((each) => exchange.text.includes(each)) ?? assert.fail();
    exchange.begin();
    await exchange.push(eventOf(chunkOf({ content: prompt })));
  }
  const answers = await Promise.all(asked);
  const usage = usageChunkOf(usageOf(5, 2));
  const rest = [
    chunkOf({ content: " End." }),
    chunkOf({}, { finishReason: "stop" }),
    usage,
    "[DONE]",
  ];
  return async () => {
    for (const exchange of exchanges) {
      await exchange.push(rest.map((each) => eventOf(each)).join(""));
      exchange.end();
    }
    for (const [at, answer] of answers.entries()) {
      assert.deepEqual(apiOf(at).read(await answer.text()), {
        text: `${prompts[at]} End.`,
        usedMilli: 7 * tokenMilli,
      });
    }
  };
}

/** Asserts that an answer has one end, or is cut off, and does not contain the words of the worker. */
async function meetHostile(api: Api, script: Script, stream: boolean): Promise<void> {
  chat.worker.script(script);
  const answer = await post(api, "Hi", stream, keys.at(-1));
  const text = await answer.text();
  assert.ok([200, 400, 503].includes(answer.status), text);
  assert.ok(!text.includes(workerSecret));
  if (answer.headers.get("content-type")?.startsWith("text/event-stream") === true) {
    assert.equal(text.match(api.end)?.length, 1, text.slice(-500));
  } else JSON.parse(text);
}

function post(api: Api, prompt: string, stream: boolean, key = keys[0]): Promise<Response> {
  const secret = key?.key ?? "";
  return fetch(chat.gateway.url + api.path, {
    method: "POST",
    headers: {
      "content-type": "application/json",
      ...(api === apis["messages"]
        ? { "x-api-key": secret }
        : { authorization: `Bearer ${secret}` }),
    },
    body: JSON.stringify({ model, stream, ...api.body(prompt) }),
  });
}
