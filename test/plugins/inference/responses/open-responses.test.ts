/**
 * The cases of the Open Responses suite (openresponses/openresponses, src/lib/compliance-tests.ts) as tests of our own,
 * with stricter checks: all 32 members of every response, and the order of all events. They are the seven cases of its main
 * revision and the five that its newest revision adds, of which those that need state are refused by
 * name (request.test.ts).
 */
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { assertEvents, assertResponse } from "./check-stream.ts";
import {
  callDelta,
  deltas,
  message,
  startResponses,
  type Event,
  type ResponsesGateway,
} from "./gateway.ts";

let gateway: ResponsesGateway;
before(async () => {
  gateway = await startResponses();
});
after(() => gateway[Symbol.asyncDispose]());

const weather = {
  type: "function",
  name: "get_weather",
  description: "Get the current weather for a location",
  parameters: { type: "object", properties: { location: { type: "string" } } },
};
const call = { id: "call_1", type: "function", function: { name: "get_weather", arguments: "{}" } };
const image = { type: "input_image", image_url: "data:image/png;base64,AAAA" };

function user(content: unknown): object {
  return { type: "message", role: "user", content };
}

/** Sends a request and checks that the response is complete. */
async function complete(members: object): Promise<Event> {
  const { status, json, text } = await gateway.create(members);
  assert.equal(status, 200, text);
  assertResponse(json);
  assert.equal(json.status, "completed");
  assert.ok(json.output.length > 0);
  return json;
}

/** Returns the messages that the worker got last. */
function sent(): unknown {
  return gateway.worker.received.at(-1)?.body["messages"];
}

describe("the cases of Open Responses", { timeout: 30_000 }, () => {
  it("basic, system prompt and multi-turn: texts as items", async () => {
    const system = { type: "message", role: "system", content: "You are a pirate." };
    const said = { type: "message", role: "assistant", content: "Hello, Alice." };
    const { output } = await complete({
      input: [system, user("I am Alice."), said, user("Who am I?")],
    });
    assert.equal(output[0].type, "message");
    assert.equal(output[0].content[0].text, "Hello world");
    assert.deepEqual(sent(), [
      { role: "system", content: "You are a pirate." },
      { role: "user", content: "I am Alice." },
      { role: "assistant", content: "Hello, Alice." },
      { role: "user", content: "Who am I?" },
    ]);
  });

  it("streaming", async () => {
    const response = assertEvents(await gateway.events({ input: [user("Count to 5.")] }));
    assert.equal(response.status, "completed");
    assert.equal(response.output[0].content[0].text, "Hello world");
  });

  it("tool calling", async () => {
    gateway.worker.script(message({ content: null, tool_calls: [call] }, "tool_calls"));
    const { output } = await complete({ input: [user("Weather?")], tools: [weather] });
    assert.deepEqual(output, [
      {
        type: "function_call",
        id: output[0].id,
        status: "completed",
        call_id: "call_1",
        name: "get_weather",
        arguments: "{}",
      },
    ]);
  });

  it("tool calling, streamed", async () => {
    const begin = { id: "call_1", name: "get_weather" };
    gateway.worker.script(
      deltas([callDelta(0, "", begin), callDelta(0, '{"location":'), callDelta(0, '"SF"}')]),
    );
    const events = await gateway.events({ input: [user("Weather?")], tools: [weather] });
    const { output } = assertEvents(events);
    assert.deepEqual(
      events.slice(2, -1).map(({ type }) => type),
      [
        "response.output_item.added",
        "response.function_call_arguments.delta",
        "response.function_call_arguments.delta",
        "response.function_call_arguments.done",
        "response.output_item.done",
      ],
    );
    assert.equal(output[0].arguments, '{"location":"SF"}');
  });

  it("image input", async () => {
    const text = { type: "input_text", text: "What is this?" };
    await complete({ input: [user([text, image])] });
    assert.deepEqual(sent(), [
      {
        role: "user",
        content: [
          { type: "text", text: "What is this?" },
          { type: "image_url", image_url: { url: image.image_url } },
        ],
      },
    ]);
  });

  it("file search and offline web search, which are optional: no such tool runs here, and the answer names it", async () => {
    const hosted = ["file_search", "web_search"].map((type) => ({ type }));
    const { status, headers, json } = await gateway.create({ tools: [...hosted, weather] });
    assert.equal(status, 200);
    assertResponse(json);
    assert.equal(headers["x-sluice-ignored"], "tools.file_search, tools.web_search");
    const { type, ...called } = weather;
    assert.deepEqual(gateway.worker.received.at(-1)?.body["tools"], [{ type, function: called }]);
  });

  it("function-call round trip, with the whole conversation instead of the id", async () => {
    const input = [
      user("Weather?"),
      { type: "function_call", call_id: "call_1", name: "get_weather", arguments: "{}" },
      { type: "function_call_output", call_id: "call_1", output: "sunny" },
    ];
    await complete({ input, tools: [weather] });
    assert.deepEqual(sent(), [
      { role: "user", content: "Weather?" },
      { role: "assistant", content: null, tool_calls: [call] },
      { role: "tool", tool_call_id: "call_1", content: "sunny" },
    ]);
  });
});

describe("the end of a response", { timeout: 30_000 }, () => {
  for (const [finishReason, reason] of [
    ["length", "max_output_tokens"],
    ["content_filter", "content_filter"],
  ] as const) {
    it(`is incomplete after ${finishReason}`, async () => {
      gateway.worker.script(deltas([{ content: "Hel" }], finishReason));
      const response = assertEvents(await gateway.events());
      assert.deepEqual([response.status, response.incomplete_details], ["incomplete", { reason }]);
      assert.equal(response.output[0].status, "incomplete");
      gateway.worker.script(message({ content: "Hel" }, finishReason));
      const { json } = await gateway.create();
      assertResponse(json);
      assert.deepEqual([json.status, json.incomplete_details], ["incomplete", { reason }]);
    });
  }

  it("repeats the request, and says what was not done", async () => {
    const { json } = await gateway.create({
      instructions: "Be short.",
      tools: [weather],
      temperature: 0.5,
      metadata: { a: "b" },
      max_output_tokens: 50,
      store: true,
      reasoning: { effort: "low" },
    });
    const { instructions, tools, temperature, metadata, max_output_tokens: max, store } = json;
    assert.deepEqual(
      { instructions, tools, temperature, metadata, max, store, reasoning: json.reasoning },
      {
        instructions: "Be short.",
        tools: [{ ...weather, strict: null }],
        temperature: 0.5,
        metadata: { a: "b" },
        max: 50,
        store: false,
        reasoning: { effort: "low", summary: null },
      },
    );
  });

  it("repeats no long instructions in every event", async () => {
    const instructions = "x".repeat(70_000);
    const events = await gateway.events({ instructions });
    assertEvents(events);
    assert.equal(events[0].response.instructions, null);
  });
});
