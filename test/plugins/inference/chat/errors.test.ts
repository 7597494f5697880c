/** Failures of chat completions: invalid requests, refusals of the gateway, and workers that misbehave. */
import assert from "node:assert/strict";
import { gzipSync } from "node:zlib";
import { after, before, describe, it } from "node:test";
import { manualClock } from "../../../../src/testing/clock.ts";
import {
  cutImmediately,
  failing,
  raw,
  silent,
  streamed,
  whole,
  workerSecret,
} from "../networks/worker-scripts.ts";
import { chunkOf, eventOf } from "../networks/chat-events.ts";
import { startWorker, type Script } from "../networks/scripted-worker.ts";
import {
  assertChatError,
  assertRefused,
  chatBody,
  chunksOf,
  startChat,
  tokenMilli,
  type RequestOptions,
  type ChatGateway,
} from "./gateway.ts";

const inTime = { timeout: 60_000 };

let chat: ChatGateway;
before(async () => {
  chat = await startChat();
});
after(() => chat[Symbol.asyncDispose]());

describe("an invalid request", () => {
  const asks = (): number => chat.worker.received.length;
  const bodies: readonly [string, string | Buffer][] = [
    ["no JSON", "{"],
    ["an empty body", ""],
    ["a list", "[]"],
    ["bytes that are no text", Buffer.of(0xff, 0xfe, 0x00)],
    ["JSON in gzip", gzipSync(JSON.stringify(chatBody()))],
    ["a bad message", JSON.stringify(chatBody({ messages: [{ role: "user", content: 1 }] }))],
  ];
  for (const [what, body] of bodies) {
    it(`${what}: returns 400 INVALID_REQUEST, charges nothing and sends nothing to a worker`, async () => {
      const earlier = [asks(), chat.charges().length];
      const headers: RequestOptions["headers"] =
        typeof body === "string" ? {} : { "content-encoding": "gzip" };
      assertChatError(await chat.send(body, { headers }), 400, "INVALID_REQUEST");
      assert.deepEqual([asks(), chat.charges().length], earlier);
    });
  }

  it("gets a message with the reason", async () => {
    const { json } = await chat.ask({ messages: [{ role: "user", content: 1 }] });
    assert.equal(json.error.message, "messages[0].content: expected a string or a list");
  });

  it("a model that no network lists returns 404 MODEL_NOT_FOUND; ids are case-sensitive", async () => {
    for (const model of ["Nobody/Nothing-1", "test/model-1", "constructor", "x".repeat(100_000)]) {
      for (const stream of [false, true]) {
        assertChatError(await chat.ask({ model, stream }), 404, "MODEL_NOT_FOUND");
      }
    }
  });
});

describe("refusals of the gateway itself use the canonical envelope", () => {
  it("for a missing key, a wrong key and a key without the capability", async () => {
    const bare = { headers: { authorization: "" } };
    assertRefused(await chat.ask({}, bare), 401, "GATEWAY_UNAUTHORIZED");
    const wrong = { key: `gateway_dev_${"0".repeat(32)}` };
    assertRefused(await chat.ask({ stream: true }, wrong), 401, "GATEWAY_UNAUTHORIZED");
    const { key } = await chat.gateway.issue({ capabilities: ["ledger:read", "platform:read"] });
    assertRefused(await chat.ask({}, { key }), 403, "GATEWAY_PERMISSION_DENIED");
    // The refusal comes before the 404 (decisions.md section 4).
    assertRefused(await chat.ask({ model: "no" }, { key }), 403, "GATEWAY_PERMISSION_DENIED");
  });

  it("for another content type, method or network", async () => {
    const text = { headers: { "content-type": "text/plain" } };
    assertRefused(await chat.ask({}, text), 415, "GATEWAY_INVALID_PARAMS");
    const get = await chat.send(undefined, { method: "GET" });
    assertRefused(get, 405, "GATEWAY_INVALID_PARAMS");
    assert.equal(get.headers.allow, "POST");
    const elsewhere = { path: "/elsewhere/v1/chat/completions" };
    assertRefused(await chat.ask({}, elsewhere), 404, "GATEWAY_NOT_FOUND");
  });

  it("a body over 10 MiB returns 413; a slightly smaller one is read", async () => {
    const filler = (bytes: number): object => ({ filler: "x".repeat(bytes) });
    const most = 10 * 1024 * 1024;
    assert.equal((await chat.ask(filler(most - 1000))).status, 200);
    assertRefused(await chat.ask(filler(most)), 413, "GATEWAY_INVALID_PARAMS");
  });

  it("a parameter of the content type and ignored headers change nothing", async () => {
    const headers = {
      "content-type": "Application/JSON; charset=utf-8",
      "openai-organization": "org-x",
      "openai-project": "p",
      "openai-beta": "assistants=v2",
      "idempotency-key": "not-honoured-here",
    };
    const answers = [await chat.ask({}, { headers }), await chat.ask({}, { headers })];
    for (const { status, headers: back } of answers) {
      assert.equal(status, 200);
      assert.equal(back["idempotent-replayed"], undefined);
    }
    assert.notEqual(answers[0]?.json.id, answers[1]?.json.id);
    const sent = chat.worker.received.at(-1)?.headers;
    for (const name of ["authorization", "openai-organization", "openai-beta", "idempotency-key"]) {
      assert.equal(sent?.[name], undefined, name);
    }
  });

  it("a request whose maximum cost exceeds the credit returns 429 before anything is sent", async () => {
    const { key } = await chat.gateway.issue({ cuLimit24hMilli: 3_000 });
    const asked = chat.worker.received.length;
    for (const stream of [false, true]) {
      for (const members of [{}, { max_tokens: 1_000 }]) {
        const answer = await chat.ask({ stream, ...members }, { key });
        assertRefused(answer, 429, "GATEWAY_CU_LIMIT_EXCEEDED");
        assert.equal(answer.headers["retry-after"], "60");
        assert.deepEqual(answer.json.details, {
          window: "24h",
          used_cu_milli: 0,
          limit_cu_milli: 3_000,
        });
      }
    }
    assert.equal(chat.worker.received.length, asked);
    // With its own token limit the request fits, and the unused part of the reservation is available again.
    for (let n = 0; n < 5; n++)
      assert.equal((await chat.ask({ max_tokens: 500 }, { key })).status, 200);
  });

  it("an exceeded rate limit returns 429 with Retry-After 1", async () => {
    await using other = await startChat({ clock: manualClock(), account: { rpsLimit: 1 } });
    for (let n = 0; n < 2; n++) assert.equal((await other.ask()).status, 200);
    const answer = await other.ask();
    assert.equal(answer.headers["retry-after"], "1");
    assertRefused(answer, 429, "GATEWAY_RATE_LIMITED");
    assert.deepEqual(Object.keys(answer.json), ["error", "error_code"]);
  });
});

describe("pinned paths", () => {
  it("a pinned path serves only models of its network; the plain path serves all", async () => {
    await using alpha = await startWorker({ models: ["Alpha/Only-1"] });
    await using other = await startChat({
      networks: `  alpha: { kind: openai, url: "${alpha.url}", price_per_token_nano: "100" }`,
    });
    const at = (network: string) => ({ path: `/${network}/v1/chat/completions` });
    assert.equal((await other.ask({}, at("classic"))).json.model, "Test/Model-1");
    assertChatError(await other.ask({}, at("alpha")), 404, "MODEL_NOT_FOUND");
    const only = { model: "Alpha/Only-1" };
    assertChatError(await other.ask(only, at("classic")), 404, "MODEL_NOT_FOUND");
    assert.equal((await other.ask(only, at("alpha"))).json.usage.usedCUMilli, 7 * 25);
    assert.equal((await other.ask(only)).json.usage.usedCUMilli, 7 * 25);
    assert.deepEqual(
      other.charges().map(({ pricing }) => pricing?.network),
      ["classic", "alpha", "alpha"],
    );
    assert.equal(alpha.received[0]?.path, "/v1/chat/completions");
    for (const [path, members] of [
      ["/v1/responses", { ...only, input: "Hi" }],
      ["/v1/messages", chatBody({ ...only, max_tokens: 9 })],
    ] as const) {
      assert.equal((await other.send(members, { path: `/alpha${path}` })).status, 200, path);
      assert.equal((await other.send(members, { path: `/classic${path}` })).status, 404, path);
    }
  });
});

/** Tests both shapes, before the first byte. */
async function assertUnanswered(script: Script, status: number, code: string, other = chat) {
  for (const stream of [false, true]) {
    const earlier = other.charges().length;
    // Two of them, because a connection that was idle may have been closed before the request, which is then sent
    // again.
    other.worker.script(script, script);
    const answer = await other.ask({ stream });
    assertChatError(answer, status, code);
    assert.ok(!answer.text.includes(workerSecret));
    assert.equal(other.charges().length, earlier, "nothing is charged");
    while ((await other.ask()).status !== 200);
  }
}

describe("a worker that fails before the first byte", inTime, () => {
  const refusals: readonly [number, number, string][] = [
    [400, 400, "INVALID_REQUEST"],
    [413, 400, "INVALID_REQUEST"],
    [422, 400, "INVALID_REQUEST"],
    [404, 503, "MODEL_NOT_AVAILABLE"],
    [401, 503, "UPSTREAM_ERROR"],
    [403, 503, "UPSTREAM_ERROR"],
    [429, 503, "UPSTREAM_ERROR"],
    [500, 503, "UPSTREAM_ERROR"],
    [502, 503, "UPSTREAM_ERROR"],
    [301, 503, "UPSTREAM_ERROR"],
    [204, 503, "UPSTREAM_ERROR"],
  ];
  for (const [said, status, code] of refusals) {
    it(`${said} becomes ${status} ${code} without any text of the worker`, () =>
      assertUnanswered(failing(said), status, code));
  }

  it("413 is named, because a proxy before the worker often limits the size of requests", async () => {
    chat.worker.script(failing(413), failing(413));
    const { json: refused } = await chat.ask();
    assert.match(refused.error.message, /more bytes than the server of the model accepts/);
    while ((await chat.ask()).status !== 200);
  });

  const json = { "content-type": "application/json" };
  const odd: readonly [string, Script][] = [
    ["cuts the connection", cutImmediately],
    ["answers what is no JSON", raw(200, json, ["<html>"])],
    ["answers nothing", raw(200, json, [])],
    ["answers an error with status 200", raw(200, json, ['{"error":{"message":"no"}}'])],
    ["answers no choices", raw(200, json, ['{"choices":[]}'])],
    ["answers no message", raw(200, json, ['{"choices":[{}]}'])],
    ["answers a list as content", raw(200, json, ['{"choices":[{"message":{"content":[1]}}]}'])],
    ["answers too much", raw(200, json, [`{"x":"${"y".repeat(17 << 20)}"}`])],
    [
      "answers in one piece although asked to stream",
      (exchange) => (exchange.body["stream"] === true ? whole() : failing(500))(exchange),
    ],
    [
      "breaks off its answer",
      async (exchange) => {
        exchange.begin(200, json);
        await exchange.push('{"choices":[{"message":{"content":"Hel');
        exchange.cut();
      },
    ],
    [
      "refuses with an endless body",
      async (exchange) => {
        exchange.begin(500);
        while ((await exchange.push("x".repeat(1 << 16))) === "taken");
      },
    ],
    ["sends events that are no JSON", raw(200, {}, ["data: nonsense\n\n"])],
    ["sends an event that is not an object", raw(200, {}, ["data: []\n\n"])],
    ["sends comments only", raw(200, {}, [": ping\n\n"])],
    ["sends an endless event", raw(200, {}, [`data: ${"x".repeat(1_500_000)}`])],
    [
      "hides an event in a text",
      raw(200, {}, [
        'data: {"choices":[{"delta":{"content":"a long enough text\r\rdata: [DONE]\r\r"},"finish_reason":"stop"}]}\n\n',
      ]),
    ],
    ["sends an error as its first event", raw(200, {}, ['data: {"error":{"code":500}}\n\n'])],
    [
      "codes its answer in a way that nobody knows",
      raw(200, { "content-encoding": "rot13" }, ["x"]),
    ],
    ["codes its answer twice", raw(200, { "content-encoding": "gzip, br" }, ["x"])],
    ["says gzip and sends something else", raw(200, { "content-encoding": "gzip" }, ["plain"])],
  ];
  for (const [how, script] of odd) {
    it(`a worker that ${how} leads to 503 UPSTREAM_ERROR`, () =>
      assertUnanswered(script, 503, "UPSTREAM_ERROR"));
  }

  it("a worker that refuses connections leads to 503, and is used again when it accepts them", async () => {
    await using other = await startChat();
    await other.worker.refuse();
    for (const stream of [false, true])
      assertChatError(await other.ask({ stream }), 503, "UPSTREAM_ERROR");
    await other.worker.accept();
    assert.equal((await other.ask()).status, 200);
    assert.equal(other.charges().length, 1);
  });

  it("a silent worker leads to 503 after the time limit of the network", async () => {
    await using other = await startChat({ network: "idleMs: 50, answerMs: 50" });
    for (const stream of [false, true]) {
      other.worker.script(silent);
      assertChatError(await other.ask({ stream }), 503, "UPSTREAM_ERROR");
    }
    assert.deepEqual(other.charges(), []);
    assert.match(await other.logged(), /"status":503,"outcome":"timedOut","code":"UPSTREAM_ERROR"/);
  });
});

it("the default time limit for a worker is one minute", inTime, async () => {
  const clock = manualClock();
  await using other = await startChat({ clock });
  const held = other.worker.hold();
  const asking = other.ask({ stream: true });
  const { left } = await held;
  let isOver = false;
  void asking.then(() => (isOver = true));
  clock.advance(59_000);
  // By then the gateway has noticed that the connection is cut.
  for (let turn = 0; turn < 500; turn++) await new Promise(setImmediate);
  assert.equal(isOver, false);
  clock.advance(2_000);
  assertChatError(await asking, 503, "UPSTREAM_ERROR");
  await left;
});

describe("a listed model without a worker", () => {
  it("returns 503 MODEL_NOT_AVAILABLE with Retry-After, streamed and whole", async () => {
    await using status = await startWorker();
    const worker = { id: "w1", model: "Test/Model-1", coefficient: 1000, state: "draining" };
    status.documents.set("/status", { price_per_token_nano: "12", workers: [worker] });
    await using other = await startChat({
      network: 'status: { url: "${STATUS_URL}" }',
      env: { STATUS_URL: `${status.url}/status` },
    });
    for (const stream of [false, true]) {
      assertChatError(await other.ask({ stream }), 503, "MODEL_NOT_AVAILABLE");
    }
    assertChatError(await other.ask({ model: "Other/Model-1" }), 404, "MODEL_NOT_FOUND");
    assert.deepEqual(other.worker.received, []);
  });

  it("while the status of a network is unknown, every model is unavailable instead of unknown", async () => {
    await using other = await startChat({
      network: 'status: { url: "${STATUS_URL}" }',
      env: { STATUS_URL: "http://127.0.0.1:1/status" },
    });
    assertChatError(await other.ask(), 503, "MODEL_NOT_AVAILABLE");
  });
});

describe("two workers", () => {
  it("the second one answers at its own price if the first fails before the first byte", async () => {
    await using good = await startWorker();
    await using bad = await startWorker({ otherwise: failing(500) });
    const worker = (id: string, url: string, coefficient: number) => ({
      id,
      model: "Test/Model-1",
      url,
      coefficient,
    });
    const workers = [worker("good", good.url, 2000), worker("bad", bad.url, 1000)];
    good.documents.set("/status", { price_per_token_nano: "12", workers });
    await using other = await startChat({
      network:
        'affinity: none, status: { url: "${STATUS_URL}" }, origins: ["${GOOD_URL}", "${BAD_URL}"]',
      env: { STATUS_URL: `${good.url}/status`, GOOD_URL: good.url, BAD_URL: bad.url },
    });
    while (bad.received.length === 0) {
      const { status, json } = await other.ask();
      assert.equal(status, 200);
      assert.equal(json.usage.usedCUMilli, 7 * 2 * tokenMilli);
    }
    assert.equal(good.received.length, other.charges().length);
    for (const { pricing } of other.charges()) assert.equal(pricing?.coefficient, 2000);
    assert.deepEqual(good.received.at(-1)?.body, bad.received.at(-1)?.body);
  });
});

describe("a worker that fails after the first byte", inTime, () => {
  const threeThen =
    (...texts: string[]): Script =>
    async (exchange) => {
      await streamed({ stop: { after: 3, how: "silence" } })(exchange);
      for (const text of texts) await exchange.push(text);
      if (texts.length === 0) exchange.end();
    };
  const cases: readonly [string, Script][] = [
    ["cuts the connection", streamed({ stop: { after: 3, how: "cut" } })],
    ["sends garbage", threeThen("data: {nonsense\n\n")],
    ["ends without a reason to", threeThen()],
    ["sends an error", threeThen(`data: {"error":{"message":"${workerSecret}"}}\n\n`)],
    ["sends an endless event", threeThen(`data: ${"x".repeat(1_500_000)}`)],
  ];
  for (const [how, script] of cases) {
    it(`a worker that ${how} leads to an error event without [DONE], and the part that arrived is charged as estimated`, async () => {
      const earlier = chat.charges().length;
      chat.worker.script(script);
      const events = await chat.stream({ stream_options: { include_usage: true } });
      const documents = events.map((data) => JSON.parse(data));
      const said = documents.slice(0, -1).map(({ choices }) => choices[0].delta.content);
      assert.deepEqual(said, ["", "Hello", " world"]);
      const { error, ...rest } = documents.at(-1);
      assert.deepEqual(rest, {});
      assert.deepEqual([error.type, error.code], ["server_error", "UPSTREAM_ERROR"]);
      assert.ok(!JSON.stringify(error).includes(workerSecret));
      const [charge, ...more] = chat.charges().slice(earlier);
      assert.deepEqual(more, []);
      // "Hi" makes one token; eleven bytes in two chunks make three.
      assert.equal(charge?.usedMilliCu, 4 * tokenMilli);
      assert.equal(charge.estimated, true);
      assert.equal(charge.outcome, "upstreamFailed");
      assert.equal((await chat.ask()).status, 200);
    });
  }

  it("a worker that falls silent leads to the same, with outcome timedOut", async () => {
    await using other = await startChat({ network: "idleMs: 50" });
    other.worker.script(streamed({ stop: { after: 2, how: "silence" } }));
    const events = await other.stream();
    assert.equal(JSON.parse(events.at(-1) ?? "").error.code, "UPSTREAM_ERROR");
    const [charge] = other.charges();
    assert.equal(charge?.outcome, "timedOut");
    assert.equal(charge.outputTokens, 2);
    assert.match(await other.logged(), /"status":200,"outcome":"timedOut"/);
  });

  it("the request is not retried, because part of the answer was already sent", async () => {
    const asked = chat.worker.received.length;
    chat.worker.script(streamed({ stop: { after: 1, how: "cut" } }));
    await chat.stream();
    assert.equal(chat.worker.received.length, asked + 1);
  });
});

it("output after [DONE] and further choices are ignored", async () => {
  const script = [
    eventOf(chunkOf({ content: "a" }, { finishReason: "stop" })),
    eventOf("[DONE]"),
    eventOf(chunkOf({ content: "b" })),
  ];
  chat.worker.script(raw(200, { "content-type": "text/event-stream" }, script));
  const chunks = chunksOf(await chat.stream());
  assert.deepEqual(
    chunks.map(({ choices }) => choices[0].delta.content),
    ["a"],
  );
  chat.worker.script(whole());
  assert.equal((await chat.ask()).status, 200);
});
