/** Calls of tools, reasoning and log probabilities through a gateway whose network ends the encryption in an enclave. */
import assert from "node:assert/strict";
import { describe, test, type TestContext } from "node:test";
import { readUsage } from "../../../../plugins/billing/metering/read-usage.ts";
import { startTestGateway, type TestGateway } from "../../../../plugins/contracts/testing.ts";
import {
  chunk,
  connectTo,
  demoModelId,
  params,
  startScriptedModel,
  startTestWorker,
} from "./fixture.ts";

const inTime = { timeout: 60_000 };

const tools = [{ type: "function", function: { name: "edit", parameters: { type: "object" } } }];
const asked = { ...params, tools, logprobs: true };

/** One character per token, as small models write JSON. */
const texts = ['{"path":"a.txt","text":"one two three"}', '{"path":"b.txt"}'];
const entry = { token: "hm", logprob: -0.5, top_logprobs: [] };
const usage = { prompt_tokens: 7, completion_tokens: 60, total_tokens: 67 };
/** 67 tokens × 12 nano × 1.2 (the coefficient of the worker) × 0.25 USD, in milli-CU: 241.2. */
const usedMilliCu = 241;

function piecesOf(index: number): string[] {
  const call = { index, id: `call_${index}`, type: "function" };
  const begin = { ...call, function: { name: "edit", arguments: "" } };
  const rest = Array.from(texts[index] ?? "", (text) => ({ index, function: { arguments: text } }));
  return [begin, ...rest].map((piece) => chunk({ tool_calls: [piece] }));
}

const events = [
  chunk({ role: "assistant", content: null }),
  chunk({ reasoning_content: "hm" }).replace(
    '"delta"',
    `"logprobs":{"content":[${JSON.stringify(entry)}]},"delta"`,
  ),
  ...piecesOf(0),
  ...piecesOf(1),
  chunk({}, "tool_calls"),
  `data: ${JSON.stringify({ choices: [], usage })}\n\n`,
  "data: [DONE]\n\n",
];

interface Received {
  readonly tools?: unknown;
  readonly messages: readonly unknown[];
}

/** A model server that answers every chat with two calls. `received`: the last request. */
async function startModel(
  t: TestContext,
  stream: readonly string[] = events,
): Promise<{ readonly url: string; readonly received: () => Received }> {
  let text = "";
  const url = await startScriptedModel(t, (request, response) => {
    text = "";
    request.on("data", (piece: Buffer) => (text += piece.toString()));
    request.on("end", () => {
      response.writeHead(200, { "content-type": "text/event-stream" });
      response.end(stream.join(""));
    });
  });
  return { url, received: () => JSON.parse(text) as Received };
}

async function startGateway(t: TestContext, upstream: string): Promise<TestGateway> {
  const worker = await startTestWorker(t, { upstream });
  const gateway = await startTestGateway({
    pipeline: `
version: 1
server: { port: "\${PORT}" }
admin: { port: "\${ADMIN_PORT}" }
store: { data: "\${DATA_DIR}" }
rate: "0.25"
networks:
  confidential-alpha:
    kind: enclave
    url: "${worker.url}"
    price_per_token_nano: "12"
    passes: [tools, reasoning, logprobs]
    evidence: { kind: simulated, roots: ["${worker.simulatedRoot}"], image_hashes: any }
lists:
  inference: [request-id, authenticate, { authorize: { require: inference } }, meter]
unmatched: [request-id]
routes:
  - { path: /v1/chat/completions, methods: [POST], run: [{ use: inference }], to: chat }
  - { path: /v1/responses, methods: [POST], run: [{ use: inference }], to: responses }
  - { path: /v1/messages, methods: [POST], run: [{ use: inference }], to: messages }
  - { path: "/{network}/v1/responses", methods: [POST], run: [{ use: inference }], to: responses }
  - { path: "/{network}/v1/messages", methods: [POST], run: [{ use: inference }], to: messages }
  - { path: /v1/embeddings, methods: [POST], run: [{ use: inference }], to: embeddings }
`,
  });
  t.after(() => gateway[Symbol.asyncDispose]());
  return gateway;
}

function post({ url, key }: TestGateway, body: object, path = "/v1/chat/completions") {
  const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
  return fetch(url + path, { method: "POST", headers, body: JSON.stringify(body) });
}

const calls = texts.map((text, index) => ({
  id: `call_${index}`,
  type: "function",
  function: { name: "edit", arguments: text },
}));

describe("calls of tools on an encrypted network", () => {
  test(
    "are in the answer in one piece, with the reasoning and the log probabilities",
    inTime,
    async (t) => {
      const model = await startModel(t);
      const gateway = await startGateway(t, model.url);
      const answer = await post(gateway, asked);
      const { choices, usage: counted } = (await answer.json()) as {
        readonly choices: readonly unknown[];
        readonly usage: { readonly total_tokens: number };
      };
      assert.deepEqual(choices, [
        {
          index: 0,
          message: {
            role: "assistant",
            content: null,
            reasoning_content: "hm",
            tool_calls: calls,
          },
          logprobs: { content: [entry] },
          finish_reason: "tool_calls",
        },
      ]);
      assert.equal(counted.total_tokens, 67);
      assert.deepEqual(model.received().tools, tools);
    },
  );

  test("are streamed in order, and their results reach the model", inTime, async (t) => {
    const model = await startModel(t);
    const gateway = await startGateway(t, model.url);
    const messages = [
      ...params.messages,
      { role: "assistant", content: null, tool_calls: calls },
      ...calls.map(({ id }) => ({ role: "tool", content: "done", tool_call_id: id })),
    ];
    const answer = await post(gateway, { ...asked, messages, stream: true });
    assert.equal(answer.headers.get("x-sluice-ignored"), null);
    const streamed = (await answer.text())
      .split("\n\n")
      .filter((data) => data.startsWith("data: {"))
      .flatMap((data) => (JSON.parse(data.slice(6)) as { choices: readonly Choice[] }).choices);
    const pieces = streamed.flatMap(({ delta }) => delta.tool_calls ?? []);
    for (const [index, text] of texts.entries()) {
      const own = pieces.filter((piece) => piece.index === index);
      assert.equal(own.map((piece) => piece.function.arguments).join(""), text);
      assert.deepEqual([own[0]?.id, own[0]?.function.name], [`call_${index}`, "edit"]);
    }
    assert.deepEqual(
      streamed.flatMap(({ logprobs }) => logprobs?.content ?? []),
      [entry],
    );
    assert.equal(streamed.at(-1)?.finish_reason, "tool_calls");
    assert.deepEqual(model.received().messages, messages);
  });

  test(
    "of a model that names no function are an error, and nothing is charged",
    inTime,
    async (t) => {
      const nameless = chunk({
        tool_calls: [{ index: 0, id: "1", function: { arguments: "{}" } }],
      });
      const model = await startModel(t, [nameless, ...events.slice(-3)]);
      const answer = await post(await startGateway(t, model.url), asked);
      assert.equal(answer.status, 503);
      assert.equal(answer.headers.get("x-used-cu-milli"), null);
    },
  );

  test("leave the enclave in batches, as text does", inTime, async (t) => {
    const model = await startModel(t);
    const worker = await startTestWorker(t, { upstream: model.url });
    const { client } = await connectTo(t, worker.url);
    const { deltas, final } = await client.ask({ ...params, tools });
    const pieces = (deltas as readonly Choice["delta"][]).flatMap(
      ({ tool_calls: list = [] }) => list,
    );
    for (const [index, text] of texts.entries()) {
      const own = pieces.filter((piece) => piece.index === index);
      assert.equal(own.map((piece) => piece.function.arguments).join(""), text);
    }
    assert.equal(final.finish_reason, "tool_calls");
    // The first text alone, and then eight tokens in each frame, or fewer after 40 ms.
    const tokens = texts.join("").length + texts.length;
    assert.ok(deltas.length < tokens / 4, `${deltas.length} frames for ${tokens} tokens`);
  });
});

/** The model's calls and the charge as an API shows them, whole or as the last events of a stream. */
interface Shown {
  readonly calls: readonly (readonly [name: string, text: string])[];
  readonly usedMilliCu: number;
}

interface Item {
  readonly type: string;
  readonly name: string;
  readonly arguments: string;
  readonly input: object;
}

interface ApiAnswer {
  readonly output: readonly Item[];
  readonly content: readonly Item[];
  readonly usage: { readonly usedCUMilli: number };
}

interface ApiEvent {
  readonly type: string;
  readonly response: ApiAnswer;
  readonly index: number;
  readonly content_block: Item;
  readonly delta: { readonly partial_json?: string };
  readonly usage: ApiAnswer["usage"];
}

function shownByResponses(answer: ApiAnswer): Shown {
  const made = answer.output.filter(({ type }) => type === "function_call");
  return {
    calls: made.map(({ name, arguments: text }) => [name, text]),
    usedMilliCu: answer.usage.usedCUMilli,
  };
}

const apis = [
  {
    path: "/v1/responses",
    body: { input: "Hi", tools: [{ type: "function", name: "edit", parameters: {} }] },
    whole: shownByResponses,
    streamed(sent: readonly ApiEvent[]): Shown {
      const last = sent.find(({ type }) => type === "response.completed") ?? assert.fail();
      return shownByResponses(last.response);
    },
  },
  {
    path: "/v1/messages",
    body: {
      max_tokens: 1000,
      messages: [{ role: "user", content: "Hi" }],
      tools: [{ name: "edit", input_schema: {} }],
    },
    whole({ content, usage: counted }: ApiAnswer): Shown {
      const made = content.filter(({ type }) => type === "tool_use");
      return {
        calls: made.map(({ name, input }) => [name, JSON.stringify(input)]),
        usedMilliCu: counted.usedCUMilli,
      };
    },
    streamed(sent: readonly ApiEvent[]): Shown {
      const begun = sent.filter(
        ({ type, content_block: block }) =>
          type === "content_block_start" && block.type === "tool_use",
      );
      const textOf = (index: number): string =>
        sent
          .map((event) => (event.index === index ? (event.delta?.partial_json ?? "") : ""))
          .join("");
      const end = sent.find(({ type }) => type === "message_delta") ?? assert.fail();
      return {
        calls: begun.map(({ index, content_block: { name } }) => [name, textOf(index)]),
        usedMilliCu: end.usage.usedCUMilli,
      };
    },
  },
];

const underNetwork = apis.map((api) => ({ ...api, path: `/confidential-alpha${api.path}` }));

for (const api of [...apis, ...underNetwork]) {
  const { path, body } = api;
  test(
    `${path} answers with calls from an encrypted network, and the charge is the counts times the price`,
    inTime,
    async (t) => {
      const model = await startModel(t);
      const gateway = await startGateway(t, model.url);
      const expected = { calls: texts.map((text) => ["edit", text]), usedMilliCu };
      const answer = await post(gateway, { model: demoModelId, ...body }, path);
      assert.equal(answer.status, 200);
      assert.equal(answer.headers.get("x-used-cu-milli"), String(usedMilliCu));
      assert.deepEqual(api.whole((await answer.json()) as ApiAnswer), expected);
      const stream = await post(gateway, { model: demoModelId, ...body, stream: true }, path);
      const sent = (await stream.text())
        .split("\n\n")
        .filter((event) => event !== "")
        .map((event) => JSON.parse(event.slice(event.indexOf("data: ") + 6)) as ApiEvent);
      assert.deepEqual(api.streamed(sent), expected);
      const rows = [...readUsage(`${gateway.folder}/data`)];
      assert.deepEqual(
        rows.map((row) => [row.inputTokens, row.outputTokens, row.usedMilliCu]),
        [1, 2].map(() => [7, 60, usedMilliCu]),
      );
    },
  );
}

interface Choice {
  readonly delta: {
    readonly tool_calls?: readonly {
      readonly index: number;
      readonly id?: string;
      readonly function: { readonly name?: string; readonly arguments: string };
    }[];
  };
  readonly logprobs?: { readonly content: readonly unknown[] };
  readonly finish_reason: string | null;
}

test("embeddings are not on encrypted networks: 404", inTime, async (t) => {
  const gateway = await startGateway(t, (await startModel(t)).url);
  const answer = await post(gateway, { model: demoModelId, input: "Hi" }, "/v1/embeddings");
  assert.equal(answer.status, 404);
  const { error } = (await answer.json()) as { readonly error: { readonly message: string } };
  assert.deepEqual(error, {
    message:
      "embeddings are not available in the network confidential-alpha, because encrypted networks answer chat only",
    type: "invalid_request_error",
    param: null,
    code: "model_not_found",
  });
});
