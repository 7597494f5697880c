/** The demo model over HTTP: documents, unstreamed answers, and streams with their intervals. */
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  demoModelId,
  startDemoModel,
  type DemoModel,
} from "../../../../plugins/inference/demo/model.ts";
import type { Clock } from "../../../../src/plugin.ts";
import { manualClock, type ManualClock } from "../../../../src/testing/clock.ts";

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
  const close = () => model.close();
  return {
    model,
    clock,
    speaking: speaking.promise,
    [Symbol.asyncDispose]: close,
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
  let text = "";
  assert.ok(answer.body !== null);
  for await (const bytes of answer.body) {
    text += Buffer.from(bytes).toString();
    for (let end = text.indexOf("\n\n"); end !== -1; end = text.indexOf("\n\n")) {
      yield text.slice("data: ".length, end);
      text = text.slice(end + 2);
    }
  }
  assert.equal(text, "");
}

test("the catalogue and the status document list the one model", async () => {
  await using model = {
    ...(await startDemoModel()),
    [Symbol.asyncDispose]() {
      return this.close();
    },
  };
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
