/**
 * A conversation in the shape of Codex's requests (recorded with 0.169.0): no instructions but several developer
 * messages, tools that the provider would run, a tool with free text, and reasoning that comes back. And refusals in
 * the shape of OpenAI's errors, whose code is in `X-Sluice-Error`; clients.slow.test.ts has those of the steps.
 */
import assert from "node:assert/strict";
import { test, after, before, describe, it } from "node:test";
import { assertEvents } from "./check-stream.ts";
import { callDelta, deltas, eventsOf, startResponses, type ResponsesGateway } from "./gateway.ts";
import { raw } from "../networks/worker-scripts.ts";
import type { Answer } from "../chat/gateway.ts";

const headers = {
  "session-id": "0199-session",
  "thread-id": "0199-thread",
  originator: "codex_exec",
  "x-client-request-id": "0199-thread",
};

let gateway: ResponsesGateway;
before(async () => {
  gateway = await startResponses();
});
after(() => gateway[Symbol.asyncDispose]());

function said(role: string, ...texts: readonly string[]): object {
  return { type: "message", role, content: texts.map((text) => ({ type: "input_text", text })) };
}

const shell = {
  type: "function",
  name: "shell",
  description: "Runs a shell command.",
  strict: false,
  parameters: { type: "object", properties: { command: { type: "array" } } },
};
const patch = {
  type: "custom",
  name: "apply_patch",
  description: "Edits files.",
  format: { type: "grammar", syntax: "lark", definition: "start: begin hunk+ end" },
};
const first = {
  input: [
    said("developer", "You are Codex.", "Be brief."),
    said("developer", "Approval is never needed."),
    said("user", "<environment_context/>"),
    said("user", "Edit a.txt."),
  ],
  tools: [
    shell,
    patch,
    { type: "namespace", name: "mcp", tools: [shell] },
    { type: "web_search", external_web_access: false },
  ],
  tool_choice: "auto",
  parallel_tool_calls: true,
  reasoning: { summary: "auto" },
  store: false,
  stream: true,
  include: ["reasoning.encrypted_content"],
  prompt_cache_key: "0199-thread",
  client_metadata: { "x-codex-installation-id": "1" },
};

test("Codex's turn with reasoning, a function and a custom tool", { timeout: 30_000 }, async () => {
  const text = '*** Begin Patch\n"a"\n*** End Patch';
  gateway.worker.script(
    deltas(
      [
        { reasoning_content: "Look " },
        { reasoning_content: "first." },
        { content: "I look." },
        callDelta(0, '{"command":', { id: "call_a", name: "shell" }),
        callDelta(0, '["ls"]}'),
        callDelta(1, "", { id: "call_b", name: "apply_patch" }),
        callDelta(1, JSON.stringify({ input: text }).slice(0, 9)),
        callDelta(1, JSON.stringify({ input: text }).slice(9)),
      ],
      "tool_calls",
    ),
  );
  const answer = await gateway.create(first, { headers });
  assert.equal(answer.status, 200, answer.text);
  assert.equal(
    answer.headers["x-sluice-ignored"],
    "tools.namespace, tools.web_search, reasoning.summary, client_metadata",
  );
  const events = await gateway.events(first, { headers });
  assertEvents(events);
  const description =
    "Edits files.\n\nThe input must match this lark grammar:\nstart: begin hunk+ end";
  assert.deepEqual(gateway.lastBody(), {
    model: "Test/Model-1",
    messages: [
      { role: "system", content: "You are Codex.\nBe brief.\n\nApproval is never needed." },
      { role: "user", content: "<environment_context/>" },
      { role: "user", content: "Edit a.txt." },
    ],
    stream: true,
    stream_options: { include_usage: true },
    chat_template_kwargs: { enable_thinking: true },
    tools: [
      {
        type: "function",
        function: {
          name: "shell",
          description: shell.description,
          parameters: shell.parameters,
          strict: false,
        },
      },
      {
        type: "function",
        function: {
          name: "apply_patch",
          description,
          parameters: {
            type: "object",
            properties: { input: { type: "string" } },
            required: ["input"],
            additionalProperties: false,
          },
        },
      },
    ],
    tool_choice: "auto",
    parallel_tool_calls: true,
  });

  const response = assertEvents(eventsOf(answer.text));
  const [reasoning, message, call, custom] = response.output;
  assert.equal(reasoning.content[0].text, "Look first.");
  assert.equal(message.content[0].text, "I look.");
  assert.deepEqual(
    [call.type, call.call_id, call.arguments],
    ["function_call", "call_a", '{"command":["ls"]}'],
  );
  assert.deepEqual(
    [custom.type, custom.call_id, custom.name, custom.input],
    ["custom_tool_call", "call_b", "apply_patch", text],
  );

  // Some clients keep the sealed text only.
  const { content: _, ...sealed } = reasoning;
  assert.ok(!JSON.stringify(sealed).includes("Look"));
  const second = {
    ...first,
    input: [
      ...first.input,
      sealed,
      message,
      call,
      custom,
      { type: "function_call_output", call_id: "call_a", output: "a.txt" },
      { type: "custom_tool_call_output", call_id: "call_b", output: "Done" },
      said("developer", "Stay brief."),
    ],
  };
  assertEvents(await gateway.events(second, { headers }));
  assert.deepEqual(gateway.lastBody().messages.slice(3), [
    {
      role: "assistant",
      content: "I look.",
      reasoning_content: "Look first.",
      tool_calls: [
        {
          id: "call_a",
          type: "function",
          function: { name: "shell", arguments: '{"command":["ls"]}' },
        },
        {
          id: "call_b",
          type: "function",
          function: { name: "apply_patch", arguments: JSON.stringify({ input: text }) },
        },
      ],
    },
    { role: "tool", content: "a.txt", tool_call_id: "call_a" },
    { role: "tool", content: "Done\n\nStay brief.", tool_call_id: "call_b" },
  ]);
});

test("a model that writes the text of a custom tool instead of JSON", async () => {
  const begin = { id: "call_b", name: "apply_patch" };
  gateway.worker.script(deltas([callDelta(0, "*** Begin Patch", begin)], "tool_calls"));
  const whole = assertEvents(await gateway.events(first));
  assert.equal(whole.output[0].input, "*** Begin Patch");
  // An input that the model could not finish must not run.
  gateway.worker.script(deltas([callDelta(0, '{"input":"*** Beg', begin)], "length"));
  const { status, output } = assertEvents(await gateway.events(first));
  assert.deepEqual([status, output[0].status, output[0].input], ["incomplete", "incomplete", ""]);
});

const inTime = { timeout: 30_000 };

function assertError(answer: Answer, status: number, code: string, error: object): void {
  assert.equal(answer.status, status, answer.text);
  const { message, ...rest } = answer.json.error;
  assert.deepEqual(Object.keys(answer.json), ["error"]);
  assert.equal(typeof message, "string");
  assert.deepEqual(rest, { param: "", ...error });
  assert.equal(answer.headers["x-sluice-error"], code);
  assert.equal(answer.headers["content-type"], "application/json");
}

describe("a refusal", inTime, () => {
  it("of the core: no JSON, another type, too large, too deep, an unknown network", async () => {
    const invalid = { type: "invalid_request_error", code: "invalid_request" };
    const path = "/v1/responses";
    assertError(await gateway.send("{", { path }), 400, "INVALID_REQUEST", invalid);
    const deep = "[".repeat(200) + "]".repeat(200);
    assertError(await gateway.send(deep, { path }), 400, "GATEWAY_INVALID_PARAMS", invalid);
    assertError(await gateway.send("[1]", { path }), 400, "INVALID_REQUEST", invalid);
    const xml = { path, headers: { "content-type": "text/xml" } };
    assertError(await gateway.send("<a/>", xml), 415, "GATEWAY_INVALID_PARAMS", invalid);
    const large = JSON.stringify({ input: "x".repeat(11 * 1024 * 1024) });
    assertError(await gateway.send(large, { path }), 413, "GATEWAY_INVALID_PARAMS", invalid);
    const elsewhere = await gateway.create({}, { path: "/none/v1/responses" });
    assertError(elsewhere, 404, "GATEWAY_NOT_FOUND", invalid);
    assert.equal((await gateway.create({}, { path: "/classic/v1/responses" })).status, 200);
  });

  it("of a prompt that is too long has a code that clients know", async () => {
    const problem = { message: "maximum context length is 10 tokens. you requested 20" };
    const json = { "content-type": "application/json" };
    gateway.worker.script(raw(400, json, [JSON.stringify({ error: problem })]));
    const { status, json: body } = await gateway.create();
    const { code, param } = body.error;
    assert.deepEqual([status, code, param], [400, "context_length_exceeded", "input"]);
  });
});
