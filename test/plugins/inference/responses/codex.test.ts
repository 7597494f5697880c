/**
 * A conversation in the shape of Codex's requests (recorded with 0.169.0): no instructions but several developer
 * messages, tools that the provider would run, a tool with free text, and reasoning that comes back.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { assertEvents } from "./check-stream.ts";
import { callDelta, deltas, eventsOf, startResponses } from "./gateway.ts";

const headers = {
  "session-id": "0199-session",
  "thread-id": "0199-thread",
  originator: "codex_exec",
  "x-client-request-id": "0199-thread",
};

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
  await using gateway = await startResponses();
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
  const { body } = gateway.worker.received[0] ?? assert.fail();
  const description =
    "Edits files.\n\nThe input must match this lark grammar:\nstart: begin hunk+ end";
  assert.deepEqual(body, {
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
  const sent = gateway.worker.received.at(-1)?.body["messages"];
  assert.ok(Array.isArray(sent));
  assert.deepEqual(sent.slice(3), [
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
  await using gateway = await startResponses();
  const begin = { id: "call_b", name: "apply_patch" };
  gateway.worker.script(deltas([callDelta(0, "*** Begin Patch", begin)], "tool_calls"));
  const whole = assertEvents(await gateway.events(first));
  assert.equal(whole.output[0].input, "*** Begin Patch");
  // An input that the model could not finish must not run.
  gateway.worker.script(deltas([callDelta(0, '{"input":"*** Beg', begin)], "length"));
  const { status, output } = assertEvents(await gateway.events(first));
  assert.deepEqual([status, output[0].status, output[0].input], ["incomplete", "incomplete", ""]);
});
