/** The demo model: how it splits text into tokens, the tools that it calls, and its answers over HTTP. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { spawnSync } from "node:child_process";
import { mkdtempDisposable, readFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { assert as check, lorem, oneof, property, string } from "fast-check";
import { readChatRequest } from "../../../plugins/inference/demo/chat-request.ts";
import { echo, maxAnswerTokens, tokensOf } from "../../../plugins/inference/demo/echo.ts";
import { fileTask } from "../../../plugins/inference/demo/file-task.ts";
import {
  demoModelId,
  startDemoModel,
  type DemoModel,
} from "../../../plugins/inference/demo/model.ts";
import type { Clock } from "../../../src/plugin.ts";
import { manualClock, type ManualClock } from "../../../src/testing/clock.ts";

const chatRequest = (text: string, maxTokens?: number, thinking = false) => ({
  messages: [{ role: "user", text }],
  stream: false,
  includeUsage: false,
  thinking,
  maxTokens,
});

test("the joined tokens are the text, and no token is empty or long", () => {
  check(
    property(oneof(string({ unit: "binary" }), lorem()), (text) => {
      const tokens = tokensOf(text);
      assert.equal(tokens.join(""), text);
      for (const token of tokens) assert.ok(token.length >= 1 && token.length <= 36);
    }),
  );
});

test("a surrogate pair is never split between two tokens", () => {
  assert.deepEqual(tokensOf("😀".repeat(13)), ["😀".repeat(12), "😀"]);
});

test("the last user message is repeated, whatever follows it", () => {
  const messages = [
    { role: "user", text: "first" },
    { role: "user", text: "second words" },
    { role: "assistant", text: "between" },
  ];
  const { content, usage } = echo({ ...chatRequest(""), messages });
  assert.deepEqual(content, ["second", " words"]);
  assert.deepEqual(usage, { prompt_tokens: 4, completion_tokens: 2, total_tokens: 6 });
});

test("without a user message, the last message is repeated; an empty one has no tokens", () => {
  const system = [{ role: "system", text: "be brief" }];
  assert.deepEqual(echo({ ...chatRequest(""), messages: system }).content, ["be", " brief"]);
  const { content, finishReason, usage } = echo(chatRequest(""));
  assert.deepEqual([content, finishReason, usage.completion_tokens], [[], "stop", 0]);
});

test("max_tokens cuts reasoning and content, and the finish reason is length", () => {
  const whole = echo(chatRequest("one two three", undefined, true));
  assert.equal(whole.finishReason, "stop");
  const thoughts = whole.reasoning.length;
  const cut = echo(chatRequest("one two three", thoughts + 1, true));
  assert.deepEqual(cut.content, ["one"]);
  assert.equal(cut.finishReason, "length");
  const thinking = echo(chatRequest("one two three", 2, true));
  assert.deepEqual([thinking.reasoning.length, thinking.content], [2, []]);
});

test("an answer ends at the limit of the model, whatever max_tokens allows", () => {
  const { content, finishReason } = echo(chatRequest("word ".repeat(maxAnswerTokens + 10), 1e9));
  assert.deepEqual([content.length, finishReason], [maxAnswerTokens, "length"]);
});

test("a request that is not valid is refused with its member", () => {
  const model = "m";
  const messages = [{ role: "user", content: "hi" }];
  const image = [{ role: "user", content: [{ type: "image_url" }] }];
  for (const [body, param] of [
    ["{", null],
    [[], null],
    [{ messages }, "model"],
    [{ model: 1, messages }, "model"],
    [{ model }, "messages"],
    [{ model, messages: [] }, "messages"],
    [{ model, messages: [{ content: "" }] }, "messages"],
    [{ model, messages: [null] }, "messages"],
    [{ model, messages: image }, "messages"],
    [{ model, messages, max_tokens: 0 }, "max_tokens"],
    [{ model, messages, max_tokens: 1.5 }, "max_tokens"],
  ] as const) {
    const text = typeof body === "string" ? body : JSON.stringify(body);
    const read = readChatRequest(text, model);
    assert.ok("error" in read, text);
    assert.deepEqual([read.status, read.error.param], [400, param], text);
  }
});

test("supported members are read, and the text parts of a message are joined", () => {
  const content = [
    { type: "text", text: "a" },
    { type: "text", text: "b" },
  ];
  const read = readChatRequest(
    JSON.stringify({
      model: "m",
      messages: [{ role: "user", content }],
      stream: true,
      stream_options: { include_usage: true },
      chat_template_kwargs: { enable_thinking: true },
      max_tokens: 9,
      max_completion_tokens: 4,
      temperature: "not heeded",
    }),
    "m",
  );
  assert.deepEqual(read, {
    messages: [{ role: "user", text: "ab" }],
    stream: true,
    includeUsage: true,
    thinking: true,
    maxTokens: 4,
  });
});

const tool = (name: string, properties: object, required: readonly string[] = []) => ({
  type: "function",
  function: { name, parameters: { type: "object", properties, required } },
});
const text = { type: "string" };
const bash = tool("bash", { command: text, description: text }, ["command", "description"]);
const shell = tool("shell", { command: { type: "array", items: text } }, ["command"]);
const write = tool("write", { filePath: text, content: text }, ["filePath", "content"]);

test("a tool that runs commands is preferred, and all its required arguments are filled in", () => {
  const call = fileTask("Create hello.txt", [write, bash]);
  assert.equal(call?.name, "bash");
  const { command, description } = JSON.parse(call.arguments) as Record<string, string>;
  assert.equal(command, "printf '%s\\n' 'Written by the demo model of Sluice.' > hello.txt");
  assert.equal(typeof description, "string");
});

test("quotes in the contents cannot end the command", async () => {
  await using folder = await mkdtempDisposable(join(tmpdir(), "sluice-file-task-"));
  const call = fileTask("create a.txt: it's; 'quoted' $(exit 1)", [shell]);
  const { command } = JSON.parse(call?.arguments ?? "{}") as { command: [string, ...string[]] };
  const [program, ...args] = command;
  spawnSync(program, args, { cwd: folder.path });
  assert.equal(await readFile(join(folder.path, "a.txt"), "utf8"), "it's; 'quoted' $(exit 1)\n");
});

test("without such a tool, one that writes files is called", () => {
  const call = fileTask("Create notes/a.md: milk", [tool("read", { path: text }), write]);
  assert.equal(call?.name, "write");
  assert.deepEqual(JSON.parse(call.arguments), { filePath: "notes/a.md", content: "milk\n" });
});

test("the task is found between the texts that agents add", () => {
  const call = fileTask("<reminder>\nCreate things\n</reminder>\nCreate a.txt: b\nToday is …", [
    write,
  ]);
  assert.deepEqual(JSON.parse(call?.arguments ?? "{}"), { filePath: "a.txt", content: "b\n" });
});

for (const [prompt, tools, why] of [
  ["Explain hello.txt", [bash], "a prompt that asks for something else"],
  ["Create", [bash], "a prompt without a name"],
  ["Create $(id).txt", [bash], "a name that a shell would interpret"],
  ["Create it", [bash], "a name that is not one of a file"],
  ["Create a.txt", [tool("read", { path: text })], "no tool that can write"],
  ["Create a.txt", "bash", "tools that are not a list"],
  [
    "Create a.txt",
    [null, { function: { name: 1 } }, { function: { name: "x" } }],
    "malformed tools",
  ],
] as const) {
  test(`no tool is called for ${why}`, () => {
    assert.equal(fileTask(prompt, tools), undefined);
  });
}

const messages = [{ role: "user", content: "hello demo world" }];

interface Started extends AsyncDisposable {
  readonly model: DemoModel;
  readonly clock: ManualClock;
  /** Resolves when the model has set a timer, which means that it has begun an answer. */
  readonly speaking: Promise<void>;
}

async function start(): Promise<Started> {
  const clock = manualClock();
  const speaking = Promise.withResolvers<void>();
  const watched: Clock = {
    ...clock,
    after: (ms, task) => (speaking.resolve(), clock.after(ms, task)),
    every: (ms, task) => (speaking.resolve(), clock.every(ms, task)),
  };
  const model = await startDemoModel({ clock: watched });
  return {
    model,
    clock,
    speaking: speaking.promise,
    [Symbol.asyncDispose]: () => model.close(),
  };
}

function ask(model: DemoModel, body: object): Promise<Response> {
  return fetch(`${model.url}/v1/chat/completions`, {
    method: "POST",
    body: JSON.stringify({ model: demoModelId, messages, ...body }),
  });
}

interface Chunk {
  readonly id: string;
  readonly choices: readonly {
    readonly delta: Readonly<Record<string, string>>;
    readonly finish_reason: string | null;
  }[];
  readonly usage?: unknown;
}

/** Reads the next `data:` event. The demo model writes one event at a time, except for the last ones. */
async function* events(answer: Response): AsyncGenerator<string> {
  let rest = "";
  assert.ok(answer.body !== null);
  for await (const bytes of answer.body) {
    rest += Buffer.from(bytes).toString();
    for (let end = rest.indexOf("\n\n"); end !== -1; end = rest.indexOf("\n\n")) {
      yield rest.slice("data: ".length, end);
      rest = rest.slice(end + 2);
    }
  }
  assert.equal(rest, "");
}

test("the catalogue and the status document list the one model", async () => {
  await using started = await start();
  const { model } = started;
  const list: unknown = await (await fetch(`${model.url}/v1/models`)).json();
  assert.partialDeepStrictEqual(list, {
    object: "list",
    data: [{ id: "Demo/Echo-1", object: "model", owned_by: "demo" }],
  });
  const status: unknown = await (await fetch(model.statusUrl)).json();
  assert.deepEqual(status, {
    price_per_token_nano: "12",
    workers: [{ id: "demo-1", model: "Demo/Echo-1", coefficient: 1000, state: "active" }],
  });
});

test("a stream begins with the role and carries one token every 20 ms", async () => {
  await using started = await start();
  const { model, clock } = started;
  const answer = await ask(model, { stream: true, stream_options: { include_usage: true } });
  assert.equal(answer.headers.get("content-type"), "text/event-stream");
  const stream = events(answer);
  const next = async (): Promise<Chunk> => {
    const { value, done } = await stream.next();
    assert.equal(done, false);
    return JSON.parse(value ?? "") as Chunk;
  };
  const first = await next();
  assert.deepEqual(first.choices[0]?.delta, { role: "assistant", content: "" });
  for (const token of ["hello", " demo", " world"]) {
    clock.advance(20);
    const chunk = await next();
    assert.deepEqual(chunk.choices[0]?.delta, { content: token });
    assert.equal(chunk.id, first.id);
    assert.equal(chunk.usage, null);
  }
  clock.advance(20);
  const last = await next();
  assert.equal(last.choices[0]?.finish_reason, "stop");
  const { choices, usage } = await next();
  assert.deepEqual(choices, []);
  assert.deepEqual(usage, { prompt_tokens: 3, completion_tokens: 3, total_tokens: 6 });
  assert.equal((await stream.next()).value, "[DONE]");
  assert.equal((await stream.next()).done, true);
});

test("an unstreamed answer is sent when its last token is due, with usage and reasoning", async () => {
  await using started = await start();
  const { model, clock, speaking } = started;
  let isAnswered = false;
  const body = { chat_template_kwargs: { enable_thinking: true }, max_tokens: 20 };
  const answering = ask(model, body).then((answer) => ((isAnswered = true), answer));
  await speaking;
  clock.advance(20 * 20 - 1);
  // After a whole further exchange on the same server, the answer would have arrived.
  await (await fetch(model.statusUrl)).text();
  assert.equal(isAnswered, false);
  clock.advance(1);
  assert.partialDeepStrictEqual(await (await answering).json(), {
    object: "chat.completion",
    created: Math.floor(clock.now() / 1000),
    model: demoModelId,
    choices: [{ index: 0, message: { role: "assistant" }, finish_reason: "length" }],
    usage: { prompt_tokens: 3, completion_tokens: 20, total_tokens: 23 },
  });
});

test("other requests are refused in OpenAI's shape", async () => {
  await using started = await start();
  const { url } = started.model;
  const type = "invalid_request_error";
  for (const [answer, status, error] of [
    [await fetch(`${url}/v1/completions`, { method: "POST" }), 404, { type }],
    [await fetch(`${url}/v1/chat/completions`), 405, { type }],
    [await fetch(`${url}/v1/models`, { method: "POST" }), 405, { type }],
    [await ask(started.model, { model: "Demo/Echo-2" }), 404, { code: "model_not_found" }],
    [await ask(started.model, { user: "x".repeat(1024 * 1024) }), 413, {}],
  ] as const) {
    assert.equal(answer.status, status);
    assert.partialDeepStrictEqual(await answer.json(), { error });
  }
});
