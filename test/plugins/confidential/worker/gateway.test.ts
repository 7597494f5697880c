/** A worker and a whole gateway: calls of tools, reasoning and log probabilities, and quotes of the gateway. */
import assert from "node:assert/strict";
import { describe, test, type TestContext } from "node:test";
import { startTestGateway, type TestGateway } from "../../../../plugins/contracts/testing.ts";
import { chunk, demoModelId, params, startScriptedModel, startTestWorker } from "./fixture.ts";

const inTime = { timeout: 60_000 };

const tools = [{ type: "function", function: { name: "edit", parameters: { type: "object" } } }];
const asked = { ...params, tools, logprobs: true };

/** One character per token, as small models write JSON. */
const texts = ['{"path":"a.txt","text":"one two three"}', '{"path":"b.txt"}'];
const entry = { token: "hm", logprob: -0.5, top_logprobs: [] };
const usage = { prompt_tokens: 7, completion_tokens: 60, total_tokens: 67 };

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

/** `images`: the image hashes that the gateway accepts. */
async function startGateway(
  t: TestContext,
  upstream: string,
  images: unknown = "any",
): Promise<TestGateway> {
  const worker = await startTestWorker(t, { upstream, token: "worker-token" });
  const gateway = await startTestGateway({
    pipeline: `
version: 1
server: { port: "\${PORT}" }
admin: { port: "\${ADMIN_PORT}" }
store: { data: "\${DATA_DIR}" }
rate: "0.25"
tools: [{ platform-tools: { evidence: { kind: simulated } } }]
networks:
  confidential-alpha:
    kind: enclave
    url: "${worker.url}"
    headers: { Authorization: "Bearer worker-token" }
    price_per_token_nano: "12"
    passes: [tools, reasoning, logprobs]
    evidence: { kind: simulated, roots: ["${worker.simulatedRoot}"], image_hashes: ${JSON.stringify(images)} }
lists:
  inference: [request-id, authenticate, { authorize: { require: inference } }, meter]
unmatched: [request-id]
routes:
  - { path: /v1/chat/completions, methods: [POST], run: [{ use: inference }], to: chat }
  - { path: /v1/embeddings, methods: [POST], run: [{ use: inference }], to: embeddings }
  - { path: /rpc, methods: [POST], run: [request-id, authenticate, meter], to: tool-rpc }
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
  test("are answered in one piece, with reasoning and log probabilities", inTime, async (t) => {
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
    // 67 tokens × 12 nano × 1.2 (the coefficient of the worker) × 0.25 USD, in milli-CU: 241.2.
    assert.equal(answer.headers.get("x-used-cu-milli"), "241");
    assert.deepEqual(model.received().tools, tools);
  });

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

  test("may be longer than a frame, in one delta", inTime, async (t) => {
    const long = [`{"text":"${"é".repeat(50_000)}"}`, `{"text":"${"x".repeat(80_000)}"}`];
    const whole = long.map((text, index) => ({
      id: `call_${index}`,
      extra_content: { signature: "s" },
      function: { name: "edit", arguments: text },
    }));
    const model = await startModel(t, [chunk({ tool_calls: whole }), ...events.slice(-3)]);
    const answer = await post(await startGateway(t, model.url), asked);
    const { choices } = (await answer.json()) as {
      readonly choices: readonly [{ readonly message: { readonly tool_calls: typeof calls } }];
    };
    const received = choices[0].message.tool_calls.map((call) => call.function.arguments);
    assert.deepEqual(received, long);
  });

  test("without the name of a function are an error, free of charge", inTime, async (t) => {
    const nameless = chunk({
      tool_calls: [{ index: 0, id: "1", function: { arguments: "{}" } }],
    });
    const model = await startModel(t, [nameless, ...events.slice(-3)]);
    const answer = await post(await startGateway(t, model.url), asked);
    assert.equal(answer.status, 503);
    assert.equal(answer.headers.get("x-used-cu-milli"), null);
  });
});

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

test("a worker whose image the gateway does not accept gets no requests", inTime, async (t) => {
  const model = await startModel(t);
  const gateway = await startGateway(t, model.url, ["ab".repeat(32)]);
  assert.equal((await post(gateway, asked)).status, 503);
});

test("the gateway's own quotes bind no reserved data", inTime, async (t) => {
  const gateway = await startGateway(t, (await startModel(t)).url);
  const call = async (input: object): Promise<string> => {
    const called = { tool: "platform_getAttestationQuote", params: input };
    const body = { jsonrpc: "2.0", id: 1, method: "tools.call", params: called };
    return (await post(gateway, body, "/rpc")).text();
  };
  const quote = await call({ report_data: "ab".repeat(64) });
  assert.match(quote, /"simulated":true/);
  assert.match(quote, new RegExp(`"reportData":"${"ab".repeat(64)}"`));
  const reserved = Buffer.from("CSTRM1RD").toString("hex").padEnd(128, "0");
  assert.match(await call({ report_data: reserved }), /GATEWAY_INVALID_PARAMS/);
});
