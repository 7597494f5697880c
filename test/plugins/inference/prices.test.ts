/**
 * Prices of the classes of tokens, rates and credit through a whole gateway: what clients see, what is charged and what
 * is reserved.
 */
import assert from "node:assert/strict";
import { after, before, beforeEach, describe, it } from "node:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  model,
  pipelineOf,
  startChat,
  type Answer,
  type ChatGateway,
  assertChatError,
  tokenMilli,
} from "./chat/gateway.ts";
import { dataOf, eventOf } from "./networks/chat-events.ts";
import { raw, streamed, usageOf, whole } from "./networks/worker-scripts.ts";
import { manualClock } from "../../../src/testing/clock.ts";
import { until } from "../../store/redis/open-redis.ts";
import { startWorker, type Worker } from "./networks/scripted-worker.ts";
import { message, messagesBody } from "./messages/gateway.ts";

const classes = { prompt: "12", cached: "2", completion: "40", reasoning: "100" };
/** Milli-CU per token, at 0.25 USD. */
const milli = { prompt: 3, cached: 0.5, completion: 10, reasoning: 25 };
const report = {
  ...usageOf(40, 9),
  prompt_tokens_details: { cached_tokens: 32 },
  completion_tokens_details: { reasoning_tokens: 3 },
};
const reportMilli =
  8 * milli.prompt + 32 * milli.cached + 6 * milli.completion + 3 * milli.reasoning;
const long = "x".repeat(200);
const priced = Object.entries(classes).map(([name, price]) => `${name}: "${price}"`);
const networks = `
  classes:
    kind: openai
    url: "\${WORKER_URL}"
    maxOutputTokens: 100
    price_per_token_nano: { ${priced.join(", ")} }
`;
const native = networks.replace("classes:", "native:") + "    speaks: [responses, messages]\n";
const chatPath = "/classes/v1/chat/completions";

const apis = {
  chat: {
    path: "/v1/chat/completions",
    body: { messages: [{ role: "user", content: long }], stream_options: { include_usage: true } },
    usage: {
      prompt_tokens: 40,
      prompt_tokens_details: { cached_tokens: 32 },
      completion_tokens: 9,
      completion_tokens_details: { reasoning_tokens: 3 },
      total_tokens: 49,
      usedCUMilli: reportMilli,
    },
  },
  responses: {
    path: "/v1/responses",
    body: { input: long },
    usage: {
      input_tokens: 40,
      input_tokens_details: { cached_tokens: 32 },
      output_tokens: 9,
      output_tokens_details: { reasoning_tokens: 3 },
      total_tokens: 49,
      usedCUMilli: reportMilli,
    },
  },
  messages: {
    path: "/v1/messages",
    body: { messages: [{ role: "user", content: long }], max_tokens: 20 },
    usage: {
      input_tokens: 8,
      cache_creation_input_tokens: 0,
      cache_read_input_tokens: 32,
      output_tokens: 9,
      usedCUMilli: reportMilli,
    },
  },
} as const;

describe("a network that prices classes of tokens", { timeout: 60_000 }, () => {
  let chat: ChatGateway;
  let earlier: number;
  before(async () => {
    chat = await startChat({ networks: networks + native });
  });
  after(() => chat[Symbol.asyncDispose]());
  beforeEach(() => {
    earlier = chat.charges().length;
  });

  async function lastCharge() {
    return (await chat.charged(earlier + 1)).at(-1);
  }

  function ask(members: object): Promise<Answer> {
    return chat.ask(members, { path: chatPath });
  }

  for (const [name, { path, body, usage }] of Object.entries(apis)) {
    for (const stream of [false, true]) {
      it(`charges each class over ${name} (stream: ${stream}) and states its counts`, async () => {
        const script = stream ? streamed : whole;
        chat.worker.script(script({ reasoning: ["hm"], usage: report }));
        const answer = await chat.send({ model, stream, ...body }, { path: `/classes${path}` });
        assert.equal(answer.status, 200, answer.text);
        assert.deepEqual(stream ? usageIn(answer.text) : answer.json.usage, usage);
        if (!stream) assert.equal(answer.headers["x-used-cu-milli"], String(reportMilli));
        const row = await lastCharge();
        assert.deepEqual(
          [row?.usedMilliCu, row?.inputTokens, row?.outputTokens, row?.estimated],
          [reportMilli, 40, 9, false],
        );
        assert.deepEqual(row?.pricing?.classes, classes);
        assert.equal(row.pricing.pricePerTokenNano, "100");
      });
    }
  }

  for (const [api, events] of [
    [
      "responses",
      [
        { type: "response.reasoning_text.delta", delta: "a".repeat(40) },
        { type: "response.output_text.delta", delta: "word" },
      ],
    ],
    [
      "messages",
      [
        {
          type: "content_block_delta",
          delta: { type: "thinking_delta", thinking: "a".repeat(40) },
        },
        { type: "content_block_delta", delta: { type: "text_delta", text: "word" } },
      ],
    ],
  ] as const) {
    it(`charges a native stream of ${api} that breaks for its reasoning`, async () => {
      chat.worker.script(async (exchange) => {
        exchange.begin();
        for (const event of events) await exchange.push(eventOf(event));
        exchange.cut();
      });
      const { path, body } = apis[api];
      await chat.send({ model, stream: true, ...body }, { path: `/native${path}` });
      const row = await lastCharge();
      // The prompt has 200 bytes.
      const cost = 50 * milli.prompt + 1 * milli.completion + 10 * milli.reasoning;
      assert.deepEqual([row?.usedMilliCu, row?.outputTokens, row?.estimated], [cost, 11, true]);
    });
  }

  it("reserves the dearer price of the prompt and the dearer price of the completion", async () => {
    // The prompt "Hi": text, role, the constant per message and the template variables.
    const promptBytes = 2 + 4 + 32 + '{"enable_thinking":false}'.length;
    const reserved = promptBytes * milli.prompt + 20 * milli.reasoning;
    for (const [cuLimit24hMilli, status] of [
      [reserved, 200],
      [reserved - 1, 429],
    ] as const) {
      const { key } = await chat.gateway.issue({ cuLimit24hMilli });
      const { status: got, text } = await chat.ask({ max_tokens: 20 }, { path: chatPath, key });
      assert.equal(got, status, text);
    }
  });

  it("charges cached tokens of embeddings", async () => {
    const usage = {
      prompt_tokens: 10,
      total_tokens: 10,
      prompt_tokens_details: { cached_tokens: 4 },
    };
    const document = { object: "list", data: [], usage };
    chat.worker.script(
      raw(200, { "content-type": "application/json" }, [JSON.stringify(document)]),
    );
    const { json } = await chat.send({ model, input: long }, { path: "/classes/v1/embeddings" });
    assert.equal(json.usage.usedCUMilli, 6 * milli.prompt + 4 * milli.cached);
  });

  it("counts the cached tokens by worker", async () => {
    const counts = (): Promise<(number | undefined)[]> =>
      Promise.all(
        ["reported_prompt", "cached"].map((name) => {
          return chat.metric(
            `sluice_inference_${name}_tokens_total{network="classes",worker="Test`,
          );
        }),
      );
    const [prompts = 0, cached = 0] = await counts();
    for (const usage of [report, usageOf(5, 2), "none"]) {
      chat.worker.script(whole({ usage }));
      await ask({ messages: [{ role: "user", content: long }] });
    }
    assert.deepEqual(await counts(), [prompts + 40, cached + 32]);
  });

  it("lists the price of each class, and a network with one price lists what it always did", async () => {
    const pricesOf = async (network: string): Promise<unknown> => {
      const path = `/${network}/v1/models`;
      return (await chat.send(undefined, { method: "GET", path })).json.data[0].pricing;
    };
    assert.deepEqual(await pricesOf("classes"), {
      prompt_cu_milli: 3,
      completion_cu_milli: 10,
      // 0.5 is rounded half up.
      cached_cu_milli: 1,
      reasoning_cu_milli: 25,
    });
    assert.deepEqual(await pricesOf("classic"), {
      prompt_cu_milli: 3,
      completion_cu_milli: 3,
      cached_cu_milli: 3,
    });
  });
});

function usageIn(text: string): unknown {
  const last = dataOf(text).findLast((data) => data.includes("usedCUMilli"));
  const event = JSON.parse(last ?? "{}");
  return event.usage ?? event.response.usage;
}

const day = 86_400_000;
const rate = '"${RATE_URL}#/usd"';

describe("a rate that cannot be read", { timeout: 60_000 }, () => {
  const stack = new AsyncDisposableStack();
  const folder = mkdtempSync(join(tmpdir(), "sluice-rate-"));
  let source: Worker;
  before(async () => {
    source = stack.use(await startWorker());
    stack.defer(() => rmSync(folder, { recursive: true }));
  });
  after(() => stack.disposeAsync());
  const start = (data: string, clock = manualClock()): Promise<ChatGateway> =>
    startChat({
      rate,
      clock,
      env: { RATE_URL: `${source.url}/rate`, DATA_DIR: join(folder, data) },
    });

  it("refuses chat from the start, and reports it, until it can be read", async () => {
    source.documents.set("/rate", 500);
    const clock = manualClock();
    await using chat = await start("first", clock);
    for (const members of [{}, { stream: true }]) {
      assertChatError(await chat.ask(members), 503, "MODEL_NOT_AVAILABLE");
    }
    const known = 'sluice_inference_rate_known{network="classic"}';
    assert.equal(await chat.metric(known), 0);
    const ready = await fetch(`${chat.gateway.adminUrl}/readyz`);
    assert.equal(ready.status, 503);
    assert.match(await ready.text(), /its rate is unknown, or too old/);
    assert.match(chat.gateway.lines.join("\n"), /the network is not used: its rate is unknown/);
    source.documents.set("/rate", { usd: 0.25 });
    clock.advance(3_000);
    await until(async () => (await chat.metric(known)) === 1);
    assert.equal((await chat.ask()).json.usage.usedCUMilli, 7 * tokenMilli);
  });

  it("is not reported any more after a reload with another rate", async () => {
    source.documents.set("/rate", 500);
    await using chat = await start("replaced");
    const known = 'sluice_inference_rate_known{network="classic"}';
    assert.equal(await chat.metric(known), 0);
    await chat.gateway.write(pipelineOf({}));
    assert.deepEqual(await chat.gateway.gateway.reloader.reload("test"), []);
    assert.equal((await chat.ask()).json.usage.usedCUMilli, 7 * tokenMilli);
    await until(async () => (await chat.metric(known)) === undefined);
  });

  it("uses the last value for a day, also after a restart", async () => {
    source.documents.set("/rate", { usd: 0.25 });
    {
      await using chat = await start("second");
      assert.equal((await chat.ask()).json.usage.usedCUMilli, 7 * tokenMilli);
    }
    source.documents.set("/rate", 500);
    const clock = manualClock();
    clock.advance(day - 60_000);
    await using chat = await start("second", clock);
    assert.equal((await chat.ask()).json.usage.usedCUMilli, 7 * tokenMilli);
    clock.jump(60_001);
    assertChatError(await chat.ask(), 503, "MODEL_NOT_AVAILABLE");
  });

  it("uses the last value for `maxAge`", async () => {
    source.documents.set("/rate", { usd: 0.25 });
    const clock = manualClock();
    await using chat = await startChat({
      rate: `{ url: "${source.url}/rate", pointer: /usd, maxAge: 10m }`,
      clock,
    });
    clock.jump(600_000);
    assert.equal((await chat.ask()).json.usage.usedCUMilli, 7 * tokenMilli);
    clock.jump(1);
    assertChatError(await chat.ask(), 503, "MODEL_NOT_AVAILABLE");
  });
});

/** 333 tokens. */
const limitMilli = 1000;
const limitedRequests = {
  responses: { model, input: "Hi", max_output_tokens: 140 },
  messages: messagesBody({ max_tokens: 140 }),
  embeddings: { model, input: "x".repeat(140) },
};

async function refusals(gateway: ChatGateway): Promise<[string, Answer][]> {
  gateway.worker.script(message({ content: "x" }, "stop", usageOf(2, 248)));
  const first = await gateway.send(messagesBody({ max_tokens: 250 }), { path: "/v1/messages" });
  assert.equal(first.status, 200, first.text);
  await gateway.charged(1);
  const answers: [string, Answer][] = [];
  for (const [api, body] of Object.entries(limitedRequests)) {
    answers.push([api, await gateway.send(body, { path: `/v1/${api}` })]);
  }
  return answers;
}

function timeIn(api: string, { status, text, json, headers }: Answer): string {
  assert.equal(status, 429, `${api}: ${text}`);
  assert.equal(headers["x-sluice-error"], "GATEWAY_CU_LIMIT_EXCEEDED");
  assert.equal(headers["x-should-retry"], "false", api);
  if (api === "messages") assert.equal(json.error.type, "rate_limit_error");
  const mark = api === "messages" ? ", until " : "; there is room again at ";
  const [, time] = json.error.message.split(mark);
  assert.match(String(time), /^\d{4}-\d\d-\d\dT[\d:]{8}\.000Z$/, `${api}: ${json.error.message}`);
  return String(time);
}

describe("the time at which there is credit again", { timeout: 60_000 }, () => {
  it("is in the message of the refusal by the 24h limit of a key", async () => {
    const clock = manualClock();
    await using gateway = await startChat({
      clock,
      account: { cuLimit24hMilli: limitMilli },
    });
    for (const [api, answer] of await refusals(gateway)) {
      const hours = (Date.parse(timeIn(api, answer)) - clock.now()) / 3_600_000;
      assert.ok(hours > 23 && hours <= 25, `${api}: ${hours}`);
      if (api === "messages") continue;
      assert.equal(answer.headers["retry-after"], String(Math.ceil(hours * 3600)), api);
      const { type, code, resets_at: resetsAt } = answer.json.error;
      assert.deepEqual([type, code], ["usage_limit_reached", "insufficient_quota"]);
      assert.equal(resetsAt, Date.parse(timeIn(api, answer)) / 1000);
    }
  });

  it("is in the message of the refusal by the plan: the end of the month", async () => {
    const clock = manualClock();
    await using gateway = await startChat({
      clock,
      settings: `plans: { free: { rps: 1000, includedCu: ${limitMilli / 1000}, overageUsdPerCu: none } }`,
      account: { plan: "free" },
    });
    const now = new Date(clock.now());
    const end = new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + 1)).toISOString();
    for (const [api, answer] of await refusals(gateway)) assert.equal(timeIn(api, answer), end);
  });
});
