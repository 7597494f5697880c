/** Embeddings through a whole gateway with a scripted worker. */
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { cutImmediately, failing, raw, usageOf, workerSecret } from "../networks/worker-scripts.ts";
import type { Script } from "../networks/scripted-worker.ts";
import { model, startChat, tokenMilli, type Answer, type ChatGateway } from "../chat/gateway.ts";

const inTime = { timeout: 30_000 };
const json = { "content-type": "application/json" };
/** Numbers, spaces and escapes as no serializer would write them. */
const data = '[ {"object":"embedding" ,"index":0, "embedding":[1.50,-2e-3 ,0.10],"x":"\\u00e4"}]';

function embedding({ usage = '{"prompt_tokens":5,"total_tokens":5}', list = data } = {}): Script {
  const report = usage === "none" ? "" : `,"usage":${usage}`;
  const text = `{"id":"w-1","object":"list","model":"worker-name","data":${list}${report}}`;
  return raw(200, json, [text]);
}

let chat: ChatGateway;
before(async () => {
  chat = await startChat();
});
after(() => chat[Symbol.asyncDispose]());

function embed(members: object = {}, path = "/v1/embeddings", at = chat): Promise<Answer> {
  return at.send({ model, input: "Hi", ...members }, { path });
}

function assertError(
  { status, headers, json: body, text }: Answer,
  expected: { readonly status: number; readonly error: object; readonly code: string },
): void {
  assert.equal(status, expected.status, text);
  const { message, ...error } = body.error;
  assert.deepEqual(Object.keys(body), ["error"]);
  assert.equal(typeof message, "string");
  assert.deepEqual(error, expected.error);
  assert.equal(headers["x-sluice-error"], expected.code);
}

describe("embeddings", inTime, () => {
  it("are passed on byte for byte with the model of the request, the usage and the charge", async () => {
    for (const path of ["/v1/embeddings", "/classic/v1/embeddings"]) {
      chat.worker.script(embedding());
      const answer = await embed({}, path);
      assert.equal(
        answer.text,
        `{"object":"list","data":${data},"model":"${model}","usage":{"prompt_tokens":5,"total_tokens":5,"usedCUMilli":${5 * tokenMilli}}}`,
      );
      assert.equal(answer.headers["content-type"], "application/json");
      assert.equal(answer.headers["x-used-cu-milli"], String(5 * tokenMilli));
    }
    const [charge] = await chat.charged(2);
    assert.deepEqual(
      [charge?.usedMilliCu, charge?.inputTokens, charge?.outputTokens, charge?.estimated],
      [5 * tokenMilli, 5, 0, false],
    );
    assert.deepEqual([charge?.method, charge?.model], ["embeddings", model]);
    assert.deepEqual(
      chat.worker.received.slice(-2).map(({ path }) => path),
      ["/v1/embeddings", "/v1/embeddings"],
    );
  });

  it("reach the worker with the known members only, and the others are named", async () => {
    chat.worker.script(embedding());
    const members = {
      input: ["a", [1, 2]],
      encoding_format: "base64",
      dimensions: 8,
      user: "u",
    };
    const unknown = { truncate: true, "Bad name": 1, "x-y": 2, input_type: null };
    const { status, headers } = await embed({ ...members, ...unknown });
    assert.equal(status, 200);
    assert.equal(headers["x-sluice-ignored"], "truncate, other, x-y, input_type");
    assert.deepEqual(chat.worker.received.at(-1)?.body, { model, ...members });
  });

  it("of 2,048 inputs of any form are served", async () => {
    chat.worker.script(embedding(), embedding());
    const count = 2_048;
    for (const input of [
      Array.from({ length: count }, (_, n) => (n % 2 === 0 ? "x" : [n])),
      Array.from({ length: 3_000 }, (_, n) => n),
    ]) {
      assert.equal((await embed({ input })).status, 200);
    }
  });
});

describe("an invalid request for embeddings is answered with 400 and its member", inTime, () => {
  const cases: readonly [string, object, string | null][] = [
    ["no model", { model: undefined }, "model"],
    ["no input", { input: undefined }, "input"],
    ["an object", { input: {} }, "input"],
    ["an empty list", { input: [] }, "input"],
    ["2,049 inputs", { input: Array.from({ length: 2_049 }, () => "x") }, "input"],
    ["an empty list of tokens", { input: ["a", []] }, "input[1]"],
    ["a list in a list", { input: [[[1]]] }, "input[0]"],
    ["a text among tokens", { input: [1, "a"] }, "input"],
    ["a fraction as token", { input: [[1, 1.5]] }, "input[0]"],
    ["null as input", { input: ["a", null] }, "input[1]"],
    ["another format", { encoding_format: "int8" }, "encoding_format"],
    ["no dimensions", { dimensions: 0 }, "dimensions"],
    ["a number as user", { user: 5 }, "user"],
  ];
  it("in every case", async () => {
    const earlier = [chat.worker.received.length, chat.charges().length];
    for (const [what, members, param] of cases) {
      const answer = await embed(members);
      const error = { type: "invalid_request_error", param, code: "invalid_value" };
      assertError(answer, { status: 400, error, code: "INVALID_REQUEST" });
      assert.match(
        answer.json.error.message,
        new RegExp(`^${param?.replaceAll(/[[\]]/g, "\\$&")}: `),
        what,
      );
    }
    for (const [body, code] of [
      ["{", "invalid_request"],
      ["[]", "invalid_request"],
      ['"text"', "invalid_request"],
    ] as const) {
      const answer = await chat.send(body, { path: "/v1/embeddings" });
      const error = { type: "invalid_request_error", param: null, code };
      assertError(answer, { status: 400, error, code: "INVALID_REQUEST" });
    }
    assert.deepEqual([chat.worker.received.length, chat.charges().length], earlier);
  });
});

describe("the charge of embeddings", inTime, () => {
  const estimates: readonly [string, string][] = [
    ["missing", "none"],
    ["a text", '"5"'],
    ["negative", '{"prompt_tokens":-5}'],
    ["far too high", '{"prompt_tokens":900000,"total_tokens":900000}'],
    ["megabytes long", `{"prompt_tokens":5,"x":"${"x".repeat(50_000)}"}`],
  ];
  it("is estimated if the report is missing or impossible: one token per four bytes, or per token of the client", async () => {
    for (const [what, usage] of estimates) {
      const earlier = chat.charges().length;
      chat.worker.script(embedding({ usage }));
      const { json: body, status } = await embed({ input: ["eight by", [7, 8, 9]] });
      assert.equal(status, 200, what);
      assert.deepEqual(body.usage, {
        prompt_tokens: 5,
        total_tokens: 5,
        usedCUMilli: 5 * tokenMilli,
      });
      const charges = await chat.charged(earlier + 1);
      assert.equal(charges.at(-1)?.estimated, true, what);
    }
  });

  it("never exceeds the reservation, and completion tokens of the report cost nothing", async () => {
    const usage = JSON.stringify(usageOf(15_000, 8_000));
    chat.worker.script(embedding({ usage }));
    // Two bytes, and 16 tokens that a model may add.
    assert.equal((await embed()).json.usage.usedCUMilli, 18 * tokenMilli);
    chat.worker.script(embedding({ usage: JSON.stringify(usageOf(6, 8_000)) }));
    assert.equal((await embed()).json.usage.usedCUMilli, 6 * tokenMilli);
  });
});

describe("a worker that fails in embeddings", inTime, () => {
  const unavailable = { type: "server_error", param: null, code: "server_error" };
  const broken: readonly [string, Script][] = [
    ["sends broken JSON", raw(200, json, ['{"data":[{"embedding":[1,2}]}'])],
    ["ends too early", raw(200, json, ['{"object":"list","data":[1,2'])],
    ["sends more after the answer", raw(200, json, ['{"data":[]} {}'])],
    ["sends no list", raw(200, json, ['{"data":{"a":1}}'])],
    ["sends an error with status 200", raw(200, json, [`{"data":[],"error":"${workerSecret}"}`])],
    ["sends too much", raw(200, json, [`{"data":["${"x".repeat(400_000)}"]}`])],
    ["answers 500", failing(500)],
    ["answers 401", failing(401)],
    ["cuts the connection", cutImmediately],
  ];
  it("is answered with 503 in OpenAI's shape, and nothing is charged", async () => {
    const earlier = chat.charges().length;
    for (const [what, script] of broken) {
      chat.worker.script(script);
      const answer = await embed();
      assertError(answer, { status: 503, error: unavailable, code: "UPSTREAM_ERROR" });
      assert.equal(answer.headers["retry-after"], "5", what);
      assert.ok(!answer.text.includes(workerSecret), what);
      assert.equal(chat.charges().length, earlier, what);
    }
  });

  it("is not ejected, so it stays available for chat", async () => {
    await using own = await startChat();
    for (const script of [failing(501), failing(500), failing(404), raw(200, json, ["{}"])]) {
      for (let n = 0; n < 12; n++) {
        own.worker.script(script);
        const answer = await embed({}, undefined, own);
        assert.equal(answer.status, 503);
      }
    }
    assert.equal((await own.ask()).status, 200);
    assert.doesNotMatch(await own.logged(), /a worker was ejected/);
  });

  it("is not quoted: a refusal gets the gateway's words", async () => {
    chat.worker.script(failing(422));
    const answer = await embed();
    const error = { type: "invalid_request_error", param: null, code: "invalid_request" };
    assertError(answer, { status: 400, error, code: "INVALID_REQUEST" });
    assert.ok(!answer.text.includes(workerSecret));
    chat.worker.script(
      raw(400, json, [
        JSON.stringify({
          error: { message: `${workerSecret}: maximum context length is 512 tokens, got 700` },
        }),
      ]),
    );
    const long = await embed();
    assert.deepEqual(
      { ...long.json.error, message: "" },
      {
        message: "",
        type: "invalid_request_error",
        param: "input",
        code: "context_length_exceeded",
      },
    );
    assert.match(long.json.error.message, /512 tokens.*700/);
    assert.ok(!long.text.includes(workerSecret));
  });
});

describe("refusals of the gateway have OpenAI's shape", inTime, () => {
  it("for the key, the capability, the credit, the rate, the model and the body", async () => {
    const { gateway } = chat;
    const path = "/v1/embeddings";
    const ask = (key: string): Promise<Answer> => chat.send({ model, input: "Hi" }, { path, key });
    const wrong = "invalid_request_error";
    const plain = { path, headers: { "content-type": "text/plain" } };
    const unable = (await gateway.issue({ capabilities: ["docs:read"] })).key;
    const poor = await ask((await gateway.issue({ cuLimit24hMilli: 1 })).key);
    const slow = (await gateway.issue({ rpsLimit: 1 })).key;
    let limited = await ask(slow);
    for (let n = 0; n < 20 && limited.status !== 429; n++) limited = await ask(slow);
    for (const [answer, status, type, openai, code] of [
      [await ask("nothing"), 401, wrong, "invalid_api_key", "GATEWAY_UNAUTHORIZED"],
      [
        await ask(unable),
        403,
        "permission_error",
        "permission_denied",
        "GATEWAY_PERMISSION_DENIED",
      ],
      [poor, 429, "usage_limit_reached", "insufficient_quota", "GATEWAY_CU_LIMIT_EXCEEDED"],
      [await embed({ model: "No/Model" }), 404, wrong, "model_not_found", "MODEL_NOT_FOUND"],
      [await embed({}, `/none${path}`), 404, wrong, "invalid_request", "GATEWAY_NOT_FOUND"],
      [await chat.send("x", plain), 415, wrong, "invalid_request", "GATEWAY_INVALID_PARAMS"],
      [limited, 429, "rate_limit_error", "rate_limit_exceeded", "GATEWAY_RATE_LIMITED"],
    ] as const) {
      assertError(answer, { status, error: { type, param: null, code: openai }, code });
    }
    assert.equal(poor.headers["x-should-retry"], "false");
    assert.equal(poor.headers["retry-after"], "60");
    assert.ok(limited.headers["retry-after"]);
  });
});
