/** Tests what a request carries to the worker, what is ignored and named, and what is refused with its path. */
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { assertEvents } from "./check-stream.ts";
import { model } from "../chat/gateway.ts";
import { startResponses, type ResponsesGateway } from "./gateway.ts";

let gateway: ResponsesGateway;
let plain: ResponsesGateway;
before(async () => {
  gateway = await startResponses();
  plain = await startResponses({ network: "" });
});
after(async () => {
  await gateway[Symbol.asyncDispose]();
  await plain[Symbol.asyncDispose]();
});

const tool = { type: "function", name: "f" };
const user = { role: "user", content: "Hi" };

function input(...items: readonly unknown[]): object {
  return { input: items };
}

describe("refused with 400 and the path", { timeout: 60_000 }, () => {
  /** The member, members of the request, and the code unless it is `unsupported_parameter`. */
  const cases = `
previous_response_id | {"previous_response_id":"resp_1"}
conversation | {"conversation":"conv_1"}
prompt | {"prompt":{"id":"p"}}
background | {"background":true}
truncation | {"truncation":"auto"}
n | {"n":2}
input[0].type | {"input":[{"type":"item_reference","id":"i"}]}
input[1].type | {"input":[{"role":"user","content":"Hi"},{"type":"compaction","encrypted_content":"x"}]}
input[0].type | {"input":[{"type":"web_search_call"}]}
input[0].type | {"input":[{"type":"__proto__"}]}
input[0].type | {"input":[{"type":7}]}
input[0].type | {"input":[{}]}
input[0].content[0].type | {"input":[{"role":"user","content":[{"type":"input_file"}]}]}
input[0].content[0].type | {"input":[{"role":"user","content":[{"type":"input_audio"}]}]}
input[0].content[0].image_url | {"input":[{"role":"user","content":[{"type":"input_image","file_id":"f"}]}]}
input[0].content[0].type | {"input":[{"role":"system","content":[{"type":"input_image"}]}]}
tool_choice | {"tool_choice":"required","tools":[{"type":"web_search"}]}
tool_choice.type | {"tool_choice":{"type":"web_search_preview"},"tools":[TOOL]}
tool_choice.type | {"tool_choice":{"type":"allowed_tools"},"tools":[TOOL]}
model | {"model":7} | invalid_value
model | {"model":null} | invalid_value
input | {"input":null} | invalid_value
input | {"input":[]} | invalid_value
input[0] | {"input":["Hi"]} | invalid_value
input[0].role | {"input":[{"role":"tool","content":"x"}]} | invalid_value
input[0].content | {"input":[{"role":"user","content":7}]} | invalid_value
input[0].content[0].text | {"input":[{"role":"user","content":[{"type":"input_text"}]}]} | invalid_value
input[0].arguments | {"input":[{"type":"function_call","call_id":"c","name":"f"}]} | invalid_value
input[0].call_id | {"input":[{"type":"function_call","name":"f","arguments":""}]} | invalid_value
input[0].call_id | {"input":[{"type":"function_call_output","output":"x"}]} | invalid_value
input[0].output | {"input":[{"type":"function_call_output","call_id":"c"}]} | invalid_value
instructions | {"instructions":[{"role":"user","content":"Hi"}]} | invalid_value
stream | {"stream":"yes"} | invalid_value
max_output_tokens | {"max_output_tokens":0} | invalid_value
temperature | {"temperature":"hot"} | invalid_value
top_logprobs | {"top_logprobs":21} | invalid_value
tools | {"tools":{}} | invalid_value
tools[0] | {"tools":["f"]} | invalid_value
tools[0].type | {"tools":[{"name":"f"}]} | invalid_value
tools[0].name | {"tools":[{"type":"function"}]} | invalid_value
tools | {"tools":[TOOL,{"type":"custom","name":"f"}]} | invalid_value
tools[0].parameters | {"tools":[{"type":"function","name":"f","parameters":"x"}]} | invalid_value
tool_choice.name | {"tools":[TOOL],"tool_choice":{"type":"function","name":"g"}} | invalid_value
tool_choice | {"tools":[TOOL],"tool_choice":7} | invalid_value
parallel_tool_calls | {"parallel_tool_calls":"no"} | invalid_value
text.format.schema | {"text":{"format":{"type":"json_schema","name":"x"}}} | invalid_value
text.format.type | {"text":{"format":{"type":"xml"}}} | invalid_value
reasoning | {"reasoning":"high"} | invalid_value
reasoning.effort | {"reasoning":{"effort":3}} | invalid_value
include | {"include":"x"} | invalid_value
metadata | {"metadata":"a"} | invalid_value
prompt_cache_key | {"prompt_cache_key":1} | invalid_value
`;
  it("in every case, and no worker is asked", async () => {
    for (const line of cases.replaceAll("TOOL", JSON.stringify(tool)).trim().split("\n")) {
      const [param, shown = "", code = "unsupported_parameter"] = line.split(" | ");
      const { status, json, headers } = await gateway.create(JSON.parse(shown) as object);
      assert.equal(status, 400, shown);
      const { message, ...error } = json.error;
      assert.deepEqual(error, { type: "invalid_request_error", param, code }, shown);
      assert.ok(message.startsWith(`${param}: `), message);
      assert.equal(headers["x-sluice-error"], "INVALID_REQUEST");
    }
    assert.equal(gateway.worker.received.length, 0);
  });

  const image = { type: "input_image", image_url: "x" };
  const notPassed: readonly (readonly [members: object, param: string, part: string])[] = [
    [{ tools: [tool] }, "tools", "tools"],
    [input(call("c")), "input[0].type", "tools"],
    [input({ ...result("c"), type: "custom_tool_call_output" }), "input[0].type", "tools"],
    [input({ role: "user", content: [image] }), "input[0].content[0].type", "images"],
    [{ text: { format: { type: "json_object" } } }, "text.format", "format"],
  ];
  it("what the network does not pass", async () => {
    for (const [members, param, part] of notPassed) {
      const { status, json, text } = await plain.create(members);
      assert.equal(status, 400, text);
      assert.deepEqual([json.error.param, json.error.code], [param, "unsupported_parameter"]);
      assert.ok(json.error.message.includes(`add \`${part}\` to \`passes\``), json.error.message);
    }
  });
});

describe("ignored and named", { timeout: 30_000 }, () => {
  async function ignoredOf(members: object, by = gateway): Promise<string | undefined> {
    const { status, headers, text } = await by.create(members);
    assert.equal(status, 200, text);
    const named = headers["x-sluice-ignored"];
    return typeof named === "string" ? named : undefined;
  }

  it("nothing, if everything reaches the model or has no effect", async () => {
    const members = {
      store: false,
      background: false,
      truncation: "disabled",
      previous_response_id: null,
      include: ["reasoning.encrypted_content"],
      metadata: { a: "b" },
      tools: [],
      user: null,
    };
    assert.equal(await ignoredOf(members), undefined);
  });

  it("what OpenAI would store, count or use for itself", async () => {
    const members = {
      store: true,
      user: "u",
      safety_identifier: "s",
      service_tier: "flex",
      max_tool_calls: 3,
      prompt_cache_retention: "24h",
      stream_options: {},
      include: ["file_search_call.results"],
      text: { verbosity: "low" },
      reasoning: { summary: "auto" },
    };
    const named = (await ignoredOf(members))?.split(", ").toSorted();
    assert.deepEqual(named, [
      "include",
      "max_tool_calls",
      "prompt_cache_retention",
      "reasoning.summary",
      "safety_identifier",
      "service_tier",
      "store",
      "stream_options",
      "text.verbosity",
      "user",
    ]);
  });

  it("what the network does not pass on", async () => {
    const members = {
      temperature: 0,
      top_p: 0.5,
      top_logprobs: 2,
      reasoning: { effort: "low" },
      input: [
        { type: "reasoning", summary: [], content: [{ type: "reasoning_text", text: "hm" }] },
        user,
      ],
    };
    assert.equal(
      await ignoredOf(members, plain),
      "input.reasoning, temperature, top_p, top_logprobs, reasoning.effort",
    );
    const { json } = await plain.create(members);
    assert.deepEqual([json.temperature, json.top_p, json.reasoning.effort], [1, 1, null]);
  });

  it("unknown members of items, hosted tools and reasoning of another provider", async () => {
    const members = {
      input: [
        {
          type: "reasoning",
          summary: [{ type: "summary_text", text: "s" }],
          encrypted_content: "gAAA",
        },
        { ...user, phase: "commentary", id: "msg_1", status: "completed" },
      ],
      tools: [{ type: "mcp", server_label: "x" }],
    };
    assert.equal(
      await ignoredOf(members),
      "input.reasoning.encrypted_content, input.reasoning.summary, input.phase, tools.mcp",
    );
    const { messages, tools } = gateway.lastBody();
    assert.deepEqual([messages, tools], [[user], undefined]);
  });
});

function call(id: string): object {
  return { type: "function_call", call_id: id, name: "f", arguments: "{}" };
}
function result(id: string, output: unknown = id): object {
  return { type: "function_call_output", call_id: id, output };
}
const sentCall = (id: string): object => ({
  id,
  type: "function",
  function: { name: "f", arguments: "{}" },
});

describe("a response", { timeout: 30_000 }, () => {
  it("repeats the request, and says what was not done", async () => {
    const { json } = await gateway.create({
      instructions: "Be short.",
      tools: [tool],
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
        tools: [{ ...tool, description: null, parameters: null, strict: null }],
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

describe("carried to the worker", { timeout: 30_000 }, () => {
  async function bodyOf(members: object): Promise<Readonly<Record<string, unknown>>> {
    const { status, text } = await gateway.create(members);
    assert.equal(status, 200, text);
    return gateway.lastBody();
  }

  it("sampling, log probabilities, effort and limits", async () => {
    const body = await bodyOf({
      temperature: 0.5,
      top_p: 0.9,
      presence_penalty: 0.1,
      frequency_penalty: 0.2,
      top_logprobs: 2,
      reasoning: { effort: "high" },
      max_output_tokens: 50,
      prompt_cache_key: "s",
    });
    assert.deepEqual(body, {
      model,
      messages: [user],
      max_tokens: 50,
      stream: false,
      chat_template_kwargs: { enable_thinking: true },
      temperature: 0.5,
      top_p: 0.9,
      presence_penalty: 0.1,
      frequency_penalty: 0.2,
      logprobs: true,
      top_logprobs: 2,
      reasoning_effort: "high",
    });
  });

  it("no thinking, if the client does not ask for it", async () => {
    for (const members of [{}, { reasoning: { effort: "none" } }, { reasoning: {} }]) {
      const { chat_template_kwargs: template } = await bodyOf(members);
      assert.deepEqual(template, { enable_thinking: false });
    }
  });

  it("an effort under the name that workers have for it", async () => {
    const named = { minimal: "low", medium: "medium", xhigh: "high", none: undefined, odd: "odd" };
    for (const [effort, sent] of Object.entries(named)) {
      const { reasoning_effort: got } = await bodyOf({ reasoning: { effort } });
      assert.equal(got, sent, effort);
    }
    const { json } = await gateway.create({ reasoning: { effort: "xhigh" } });
    assert.equal(json.reasoning.effort, "xhigh");
  });

  it("all digits of the integers in schemas", async () => {
    const parameters = `{"maximum":18446744073709551615,"minimum":-9007199254740993,"x":[1e3,0.5]}`;
    const own = `{"type":"function","name":"f","parameters":${parameters}}`;
    const body = `{"model":"${model}","input":"Hi","temperature":1,"seed":${2n ** 64n},"tools":[${own}]}`;
    const { status, text } = await gateway.send(body, { path: "/v1/responses" });
    assert.equal(status, 200, text);
    const sent = gateway.worker.received.at(-1)?.text ?? "";
    assert.ok(sent.includes(parameters.replace("1e3", "1000")), sent);
  });

  it("images and texts of the user", async () => {
    const image = { type: "input_image", image_url: "data:image/png;base64,AAAA" };
    const content = [{ type: "input_text", text: "What is this?" }, image];
    assert.deepEqual((await bodyOf({ input: [{ role: "user", content }] }))["messages"], [
      {
        role: "user",
        content: [
          { type: "text", text: "What is this?" },
          { type: "image_url", image_url: { url: image.image_url } },
        ],
      },
    ]);
  });

  it("the choice of a custom tool", async () => {
    const tools = [tool, { type: "custom", name: "g" }];
    const chosen = { type: "function", function: { name: "g" } };
    const one = await bodyOf({ tools, tool_choice: { type: "custom", name: "g" } });
    assert.deepEqual(one["tool_choice"], chosen);
  });

  it("one system message at the beginning; later texts stay where they are", async () => {
    const { messages } = await bodyOf({
      instructions: "A",
      input: [
        { role: "system", content: "B" },
        { role: "developer", content: [{ type: "input_text", text: "C" }] },
        user,
        { role: "developer", content: "D" },
        { role: "assistant", content: [{ type: "output_text", text: "E" }] },
        { role: "system", content: "F" },
      ],
    });
    assert.deepEqual(messages, [
      { role: "system", content: "A\n\nB\n\nC" },
      { role: "user", content: "Hi\n\nD" },
      { role: "assistant", content: "E" },
      { role: "user", content: "F" },
    ]);
  });

  it("parallel calls and their results in order; images of results follow as a message of the user", async () => {
    const image = { type: "input_image", image_url: "data:image/png;base64,AA", detail: "low" };
    const { messages } = await bodyOf({
      input: [
        user,
        call("1"),
        call("2"),
        result("1", [{ type: "input_text", text: "a" }, image]),
        result("2", "b"),
      ],
    });
    assert.deepEqual(messages, [
      user,
      { role: "assistant", content: null, tool_calls: [sentCall("1"), sentCall("2")] },
      {
        role: "tool",
        content: "a\n\nThe images of this result follow in the next message.",
        tool_call_id: "1",
      },
      { role: "tool", content: "b", tool_call_id: "2" },
      {
        role: "user",
        content: [{ type: "image_url", image_url: { url: image.image_url, detail: "low" } }],
      },
    ]);
  });

  it("parallel calls in one message, even if the user writes between them", async () => {
    const { messages } = await bodyOf({
      input: [user, call("1"), { role: "user", content: "A" }, call("2"), result("1"), result("2")],
    });
    assert.deepEqual(messages, [
      user,
      { role: "assistant", content: null, tool_calls: [sentCall("1"), sentCall("2")] },
      { role: "tool", content: "1", tool_call_id: "1" },
      { role: "tool", content: "2", tool_call_id: "2" },
      { role: "user", content: "A" },
    ]);
  });

  it("a large body of many items in little time", async () => {
    const items = Array.from({ length: 10_000 }, () => ({ role: "developer", content: "x" }));
    const { messages } = await bodyOf({ input: [user, ...items] });
    assert.ok(Array.isArray(messages));
    assert.equal(messages.length, 1);
  });
});
