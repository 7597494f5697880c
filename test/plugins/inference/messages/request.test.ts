/** Tests what reaches the worker of requests as agents send them (agents.md section 1), and what is refused or ignored. */
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { model, type Answer } from "../chat/gateway.ts";
import { deltas, eventsOf, message, startMessages, type MessagesGateway } from "./gateway.ts";

const inTime = { timeout: 60_000 };
const schema = { type: "object", properties: { path: { type: "string" } } };
const read = { name: "Read", description: "Reads a file.", input_schema: schema };
const find = { name: "Find", input_schema: schema, defer_loading: true };
const never = { name: "Never", input_schema: schema, defer_loading: true };
const functionOf = ({ name, description }: { name: string; description?: string }): object => ({
  type: "function",
  function: { name, ...(description !== undefined && { description }), parameters: schema },
});
const cache = { cache_control: { type: "ephemeral" } };
const picture = {
  type: "image",
  source: { type: "base64", media_type: "image/png", data: "AAAA" },
};
const url = { type: "image_url", image_url: { url: "data:image/png;base64,AAAA" } };

/** The headers and the members that Claude Code sends with every request. */
const claudeHeaders = {
  "anthropic-version": "2023-06-01",
  "anthropic-beta": "claude-code-1,interleaved-thinking-1,context-management-1,a-1,b-1,c-1,d-1",
  "x-claude-code-session-id": "5c0f",
};
const claudeCode = {
  model,
  max_tokens: 32000,
  stream: true,
  system: [
    { type: "text", text: "x-anthropic-billing-header: cc_version=2.1.331; cch=00000;" },
    { type: "text", text: "You are an agent.", ...cache },
    { type: "text", text: "Be short.", ...cache },
  ],
  tools: [{ ...read, eager_input_streaming: true }, find, { ...never, ...cache }],
  thinking: { type: "adaptive", display: "omitted" },
  context_management: { edits: [{ type: "clear_thinking_20251015", keep: "all" }] },
  output_config: { effort: "high" },
  metadata: { user_id: JSON.stringify({ device_id: "d", account_uuid: "", session_id: "5c0f" }) },
};

let gateway: MessagesGateway;
let textsOnly: MessagesGateway;
before(async () => {
  gateway = await startMessages();
  textsOnly = await startMessages({ network: "" });
});
after(async () => {
  await gateway[Symbol.asyncDispose]();
  await textsOnly[Symbol.asyncDispose]();
});

describe("Claude Code", inTime, () => {
  it("gets its first request to the worker without the billing text and without deferred tools", async () => {
    const messages = [
      {
        role: "user",
        content: [
          { type: "text", text: "<system-reminder>Today is Friday.</system-reminder>" },
          { type: "text", text: "Edit a.txt", ...cache },
        ],
      },
      { role: "system", content: "Deferred tools: Find, Never" },
    ];
    const answer = await gateway.create({ ...claudeCode, messages }, { headers: claudeHeaders });
    assert.equal(answer.status, 200, answer.text);
    assert.deepEqual(gateway.lastBody(), {
      model,
      messages: [
        { role: "system", content: "You are an agent.\n\nBe short." },
        {
          role: "user",
          content:
            "<system-reminder>Today is Friday.</system-reminder>\n\nEdit a.txt\n\nDeferred tools: Find, Never",
        },
      ],
      max_tokens: 32000,
      stream: true,
      stream_options: { include_usage: true },
      chat_template_kwargs: { enable_thinking: true },
      tools: [functionOf(read)],
      reasoning_effort: "high",
    });
    assert.deepEqual(ignoredOf(answer).toSorted(), [
      "betas",
      "cache_control",
      "context_management",
      "metadata",
      "system.billing_header",
      "tools.eager_input_streaming",
    ]);
  });

  it("gets its history back to the worker: hidden reasoning, results with images, and tools that were loaded", async () => {
    gateway.worker.script(
      deltas(
        [
          { reasoning_content: "First look" },
          { content: "I read it." },
          {
            tool_calls: [
              { index: 0, id: "c1", function: { name: "Read", arguments: '{"path":"a"}' } },
            ],
          },
          { tool_calls: [{ index: 1, id: "c2", function: { name: "Search", arguments: "{}" } }] },
        ],
        "tool_calls",
      ),
    );
    const first = { role: "user", content: "Edit a.txt" };
    const ask = { ...claudeCode, messages: [first] };
    const { text } = await gateway.create(ask, { headers: claudeHeaders });
    const events = eventsOf(text);
    assert.doesNotMatch(text, /First look/);
    const thinking = events.filter(
      ({ type, index }) => type === "content_block_delta" && index === 0,
    );
    assert.deepEqual(
      thinking.map(({ delta }) => delta.type),
      ["signature_delta"],
    );
    const signature = thinking[0]?.["delta"].signature;
    const use = (id: string, name: string, input: object): object => ({
      type: "tool_use",
      id,
      name,
      input,
    });
    const messages = [
      first,
      {
        role: "assistant",
        content: [
          { type: "thinking", thinking: "", signature },
          { type: "redacted_thinking", data: "abc" },
          { type: "text", text: "I read it." },
          use("c1", "Read", { path: "a" }),
          { ...use("c2", "Search", {}), ...cache },
        ],
      },
      {
        role: "user",
        content: [
          {
            type: "tool_result",
            tool_use_id: "c1",
            is_error: true,
            content: [{ type: "text", text: "no such file" }, picture],
          },
          {
            type: "tool_result",
            tool_use_id: "c2",
            content: [{ type: "tool_reference", tool_name: "Find" }],
          },
          { type: "text", text: "What is this?", ...cache },
        ],
      },
      { role: "assistant", content: "A cat." },
      { role: "system", content: "The plan has changed." },
      { role: "user", content: "Go on" },
    ];
    const answer = await gateway.create({ ...ask, messages }, { headers: claudeHeaders });
    assert.equal(answer.status, 200, answer.text);
    const call = (id: string, name: string, given: string): object => ({
      id,
      type: "function",
      function: { name, arguments: given },
    });
    const { messages: sent, tools } = gateway.lastBody();
    assert.deepEqual(sent.slice(1), [
      first,
      {
        role: "assistant",
        content: "I read it.",
        tool_calls: [call("c1", "Read", '{"path":"a"}'), call("c2", "Search", "{}")],
        reasoning_content: "First look",
      },
      {
        role: "tool",
        content: "Error:\n\nno such file\n\nThe images of this result follow in the next message.",
        tool_call_id: "c1",
      },
      { role: "tool", content: "The tool Find is available now.", tool_call_id: "c2" },
      { role: "user", content: [url, { type: "text", text: "What is this?" }] },
      { role: "assistant", content: "A cat." },
      { role: "user", content: "The plan has changed.\n\nGo on" },
    ]);
    assert.deepEqual(tools, [functionOf(read), functionOf(find)]);
    assert.ok(ignoredOf(answer).includes("messages.content.redacted_thinking"));
  });

  it("may send an id of the user that is no JSON", async () => {
    assert.equal((await gateway.create({ metadata: { user_id: "{" } })).status, 200);
  });
});

it("the worker gets results of tools directly after their calls", inTime, async () => {
  const use = (id: string): object => ({ type: "tool_use", id, name: "Read", input: {} });
  const result = (id: string): object => ({
    type: "tool_result",
    tool_use_id: id,
    content: `result ${id}`,
  });
  const messages = [
    { role: "user", content: "Go" },
    { role: "assistant", content: [use("1"), use("2")] },
    { role: "system", content: "A" },
    user(result("1"), { type: "text", text: "B" }),
    user(result("2")),
  ];
  assert.equal((await gateway.create({ tools: [read], messages })).status, 200);
  assert.deepEqual(gateway.lastBody().messages.slice(2), [
    { role: "tool", content: "result 1", tool_call_id: "1" },
    { role: "tool", content: "result 2", tool_call_id: "2" },
    { role: "user", content: "A\n\nB" },
  ]);
});

describe("an integer that JavaScript would round", inTime, () => {
  it("keeps its digits in the input of an earlier call and in a schema", async () => {
    const id = "9007199254740993";
    const call = `{"type":"tool_use","id":"c","name":"Read","input":{"id":${id}}}`;
    const messages = `[{"role":"user","content":"Hi"},{"role":"assistant","content":[${call}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":"x"}]}]`;
    const tools = `[{"name":"Read","input_schema":{"type":"object","maximum":${id}}}]`;
    const body = `{"model":"${model}","max_tokens":9,"messages":${messages},"tools":${tools}}`;
    const { status, text } = await gateway.send(body, { path: "/v1/messages" });
    assert.equal(status, 200, text);
    const sent = gateway.worker.received.at(-1)?.text ?? "";
    assert.ok(sent.includes(JSON.stringify(`{"id":${id}}`)), sent);
    assert.ok(sent.includes(`"maximum":${id}`), sent);
  });
});

describe("Qwen Code", inTime, () => {
  it("gets its thinking with a budget, its temperature and its tools to the worker", async () => {
    const answer = await gateway.create({
      max_tokens: 32000,
      system: "You are Qwen Code.",
      messages: [{ role: "user", content: [{ type: "text", text: "Hi" }] }],
      thinking: { type: "enabled", budget_tokens: 32000 },
      temperature: 1,
      tools: [read],
      stop_sequences: ["END"],
      tool_choice: { type: "any", disable_parallel_tool_use: true },
    });
    assert.equal(answer.status, 200, answer.text);
    assert.deepEqual(gateway.lastBody(), {
      model,
      messages: [
        { role: "system", content: "You are Qwen Code." },
        { role: "user", content: "Hi" },
      ],
      max_tokens: 32000,
      stream: false,
      chat_template_kwargs: { enable_thinking: true },
      temperature: 1,
      stop: ["END"],
      tools: [functionOf(read)],
      tool_choice: "required",
      parallel_tool_calls: false,
    });
    assert.equal(answer.headers["x-sluice-ignored"], "thinking.budget_tokens");
  });
});

describe("a network that passes texts only", inTime, () => {
  it("ignores and names sampling, effort and earlier reasoning", async () => {
    const messages = [
      { role: "user", content: "a" },
      {
        role: "assistant",
        content: [
          { type: "thinking", thinking: "hm", signature: "x" },
          { type: "text", text: "b" },
        ],
      },
      { role: "user", content: "c" },
    ];
    const members = {
      temperature: 0,
      top_k: 5,
      stop_sequences: ["x"],
      output_config: { effort: "low" },
    };
    const answer = await textsOnly.create({ messages, ...members, tool_choice: { type: "auto" } });
    assert.equal(answer.status, 200, answer.text);
    assert.deepEqual(Object.keys(textsOnly.lastBody()).toSorted(), [
      "chat_template_kwargs",
      "max_tokens",
      "messages",
      "model",
      "stream",
    ]);
    assert.deepEqual(textsOnly.lastBody().messages[1], { role: "assistant", content: "b" });
    assert.deepEqual(ignoredOf(answer).toSorted(), [
      "messages.content.thinking",
      "output_config.effort",
      "stop_sequences",
      "temperature",
      "tool_choice",
      "top_k",
    ]);
  });

  it("refuses what would be lost, and says what its operator has to set", async () => {
    const format = { type: "json_schema", schema };
    for (const [members, start] of [
      [{ tools: [read] }, "tools: "],
      [{ messages: [user({ type: "tool_result", tool_use_id: "c" })] }, "tools: "],
      [{ messages: [user(picture)] }, "messages.0.content.0: "],
      [{ output_config: { format } }, "output_config.format: "],
      [{ output_format: format }, "output_format: "],
    ] as const) {
      const { status, json } = await textsOnly.create(members);
      assert.equal(status, 400);
      const { message: text } = json.error;
      assert.ok(text.startsWith(start), text);
      assert.match(text, /its operator has to add `\w+` to `passes` of the network/);
    }
  });
});

function ignoredOf({ headers }: Answer): string[] {
  return String(headers["x-sluice-ignored"]).split(", ");
}

function user(...content: object[]): object {
  return { role: "user", content };
}

/** The beginning of the message, and members of the request. */
const refused = `
model: | {"model":""}
model: | {"model":7}
max_tokens: | {"max_tokens":null}
max_tokens: | {"max_tokens":0}
max_tokens: | {"max_tokens":1.5}
stream: | {"stream":"yes"}
messages: | {"messages":null}
messages: | {"messages":[]}
messages.0: | {"messages":[7]}
messages.0.role: | {"messages":[{"role":"tool","content":""}]}
messages.0.content: | {"messages":[{"role":"user"}]}
messages: | {"messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":"{"}]}
messages: | {"messages":[{"role":"system","content":"x"}]}
system: | {"system":7}
system.0.type: | {"system":[{"type":"image"}]}
tools: | {"tools":{}}
tools.1.name: | {"tools":[READ,{}]}
tools.0.input_schema: | {"tools":[{"name":"x"}]}
tools.0.name: | {"tools":[{"name":"","input_schema":{}}]}
tools.0.type: "bash_20250124" | {"tools":[{"name":"x","input_schema":{},"type":"bash_20250124"}]}
tool_choice.name: | {"tools":[READ],"tool_choice":{"type":"tool","name":"Other"}}
tool_choice.type: | {"tools":[READ],"tool_choice":{"type":"x"}}
thinking.type: | {"thinking":{"type":"x"}}
output_config.format.type: | {"output_config":{"format":{"type":"x"}}}
output_config.format.schema: | {"output_config":{"format":{"type":"json_schema"}}}
temperature: | {"temperature":"hot"}
stop_sequences.0: | {"stop_sequences":[7]}
mcp_servers: | {"mcp_servers":[{}]}
container: | {"container":"c"}
`;
/** The same with a block of a message: of the user, or of the assistant between two of the user. */
const refusedBlocks = `
messages.0.content.0: | 7
messages.0.content.0.text: | {"type":"text"}
messages.0.content.0.type: "document" | {"type":"document","source":{}}
messages.0.content.0.type: this type | {"type":"${"X".repeat(99)}"}
messages.0.content.0.type: | {"type":"search_result"}
messages.0.content.0.tool_use_id: | {"type":"tool_result"}
messages.0.content.0.content.0.type: | {"type":"tool_result","tool_use_id":"c","content":[{"type":"document"}]}
messages.0.content.0.source: | {"type":"image"}
messages.0.content.0.source.type: | {"type":"image","source":{"type":"file","file_id":"f"}}
messages.0.content.0.source.media_type: | {"type":"image","source":{"type":"base64","media_type":"a/b","data":""}}
messages.0.content.0.citations: citations are not supported | {"type":"text","text":"x","citations":{"enabled":true}}
messages.1.content.0.type: | {"type":"server_tool_use"}
messages.1.content.0.type: | {"type":"document"}
messages.1.content.0.thinking: | {"type":"thinking"}
messages.1.content.0.input: | {"type":"tool_use","id":"c","name":"n"}
messages.1.content.0.id: | {"type":"tool_use","name":"n","input":{}}
`;

function casesOf(table: string): (readonly [start: string, value: unknown])[] {
  const lines = table.replaceAll("READ", JSON.stringify(read)).trim().split("\n");
  return lines.map((line) => {
    const [start = "", json = ""] = line.split(" | ");
    return [`${start} `, JSON.parse(json)];
  });
}

const cases: readonly (readonly [start: string, members: object])[] = [
  ...casesOf(refused).map(([start, members]) => [start, members as object] as const),
  ...casesOf(refusedBlocks).map(([start, block]) => {
    const said = { role: "user", content: [block] };
    const fine = { role: "user", content: "Hi" };
    const answered = [fine, { role: "assistant", content: [block] }, fine];
    return [start, { messages: start.startsWith("messages.0") ? [said] : answered }] as const;
  }),
];

describe("a request that is not valid", inTime, () => {
  it("is refused with the path of the member, in the shape of the API, and no worker gets it", async () => {
    const earlier = gateway.worker.received.length;
    for (const [start, members] of cases) {
      const { status, json, headers } = await gateway.create(members);
      const shown = JSON.stringify(members);
      assert.equal(status, 400, shown);
      assert.ok(`${json.error?.message} `.startsWith(start), `${shown}: ${json.error?.message}`);
      assert.deepEqual(json, {
        type: "error",
        error: { type: "invalid_request_error", message: json.error.message },
        request_id: headers["request-id"],
      });
      assert.equal(headers["x-sluice-error"], "INVALID_REQUEST");
    }
    const broken = await gateway.send("{", { path: "/v1/messages" });
    assert.equal(broken.json.error.message, "the body is not JSON");
    assert.equal((await gateway.send([], { path: "/v1/messages" })).status, 400);
    assert.equal(gateway.worker.received.length, earlier);
    assert.deepEqual(gateway.charges().length, earlier);
  });

  it("includes sampling and citations in version 2026-10-21 only, also for count_tokens", async () => {
    const strict = { headers: { "anthropic-version": "2026-10-21" } };
    const cited = user({ type: "text", text: "x", citations: [{}] });
    for (const [members, start] of [
      [{ temperature: 1 }, "temperature: Extra inputs are not permitted"],
      [{ top_p: 0.5 }, "top_p: Extra inputs are not permitted"],
      [{ top_k: 5 }, "top_k: Extra inputs are not permitted"],
      [{ messages: [cited] }, "messages.0.content.0.citations: Extra inputs are not permitted"],
    ] as const) {
      for (const path of ["/v1/messages", "/v1/messages/count_tokens"]) {
        const { status, json } = await gateway.create(members, { path, ...strict });
        assert.deepEqual([status, json.error?.message], [400, start]);
        assert.equal((await gateway.create(members, { path })).status, 200);
        const later = { headers: { "anthropic-version": "2099-01-01" } };
        assert.equal((await gateway.create(members, { path, ...later })).status, 200);
      }
    }
  });
});

describe("what is ignored", inTime, () => {
  it("is named with names of a bounded form and number", async () => {
    const many = Object.fromEntries(Array.from({ length: 40 }, (_, n) => [`new_${n}`, 1]));
    const odd = { "Ünknown\n": 1, ["x".repeat(41)]: 1, speed: "fast", inference_geo: null };
    const names = ignoredOf(await gateway.create({ ...odd, ...many }));
    assert.deepEqual(names.slice(0, 3), ["other", "speed", "new_0"]);
    assert.equal(names.length, 16);
    assert.ok(names.every((name) => /^[a-z0-9_.]{1,40}$/.test(name)));
    assert.deepEqual(ignoredOf(await gateway.create({ topK: 1, "x-foo": 1 })), ["topK", "x-foo"]);
  });
});

describe("reasoning", inTime, () => {
  it("reaches a client that did not ask for it neither whole nor streamed", async () => {
    gateway.worker.script(message({ content: "x", reasoning_content: "hm" }));
    assert.deepEqual((await gateway.create()).json.content, [{ type: "text", text: "x" }]);
    gateway.worker.script(deltas([{ reasoning_content: "hm" }, { content: "x" }]));
    assert.doesNotMatch(JSON.stringify(await gateway.events()), /hm|thinking/);
    assert.equal(gateway.lastBody().chat_template_kwargs.enable_thinking, false);
  });
});
