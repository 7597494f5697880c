/** Judges every client of `clients.ts` by the same cases, on workers that are asked for chat completions or its own API. */
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { manualClock } from "../../src/testing/clock.ts";
import { everything, model, tokenMilli } from "../plugins/inference/chat/gateway.ts";
import { eventsFor } from "../plugins/inference/networks/native-events.ts";
import type { Script } from "../plugins/inference/networks/scripted-worker.ts";
import { failing, workerSecret } from "../plugins/inference/networks/worker-scripts.ts";
import {
  callDelta,
  deltas,
  message,
  startResponses,
  type ResponsesGateway,
} from "../plugins/inference/responses/gateway.ts";
import { add, sum, type Client, type Failure, type Refusal } from "./client.ts";
import { clients } from "./clients.ts";

const call = { id: "call_1", type: "function", function: { name: add.name, arguments: '{"n":2}' } };
const begin = { id: call.id, name: add.name };
const role = { role: "assistant", content: "" };
const never = new AbortController().signal;

/** The answer that asks for the tool. Its arguments arrive in pieces. */
const calling = {
  "in one piece": message({ content: null, tool_calls: [call] }, "tool_calls"),
  streamed: deltas([role, callDelta(0, '{"n"', begin), callDelta(0, ":2}")], "tool_calls"),
} as const;

const hello: Script = (exchange) => {
  const isStream = exchange.body["stream"] === true;
  const words = [role, { content: "Hello" }, { content: " world" }];
  return (isStream ? deltas(words) : message({ content: "Hello world" }))(exchange);
};

const statuses: Readonly<Record<Refusal, number>> = {
  "wrong key": 401,
  "missing capability": 403,
  "credit used up": 429,
  "unknown model": 404,
  "request refused by the worker": 400,
  "failure of the worker": 503,
};

/** The value of `X-Sluice-Error`. */
const codes: Readonly<Record<Refusal, string>> = {
  "wrong key": "GATEWAY_UNAUTHORIZED",
  "missing capability": "GATEWAY_PERMISSION_DENIED",
  "credit used up": "GATEWAY_CU_LIMIT_EXCEEDED",
  "unknown model": "MODEL_NOT_FOUND",
  "request refused by the worker": "INVALID_REQUEST",
  "failure of the worker": "UPSTREAM_ERROR",
};

// Most of their time is spent waiting.
describe("clients", { concurrency: 6 }, () => {
  for (const client of clients) {
    const title = [client.name, client.variant].filter(Boolean).join(", ");
    for (const isNative of client.api === "chat" ? [false] : [false, true]) {
      const workers = isNative ? "workers that have it" : "workers that have chat completions";
      describe(
        `${title}: the API for ${client.api}, ${workers}`,
        { timeout: 120_000, concurrency: 1 },
        () => {
          judge(client, isNative);
        },
      );
    }
    it(`${title}: the API for ${client.api}, a network that passes no tools`, () =>
      judgeRefusedTools(client));
  }
});

function judge(client: Client, isNative: boolean): void {
  const { api } = client;
  let gateway: ResponsesGateway;
  before(async () => {
    const network = isNative ? `${everything}, speaks: [${api}]` : everything;
    gateway = await startResponses({ network, otherwise: hello });
  });
  after(() => gateway[Symbol.asyncDispose]());

  const at = (more: object = {}) => {
    const { url, key } = gateway.gateway;
    return client.at({ url, key, model, ...more });
  };

  it("reads an answer in one piece, and its usage", async () => {
    assert.deepEqual(await at().ask(), { text: "Hello world", tokens: [5, 2] });
    const path = isNative ? `/v1/${api}` : "/v1/chat/completions";
    assert.equal(gateway.worker.received.at(-1)?.path, path);
  });

  it("reads a stream, and its usage", async () => {
    const pieces: string[] = [];
    const tokens = [client.readsStreamedInput ? 5 : 0, 2];
    const reply = await at().stream((text) => void pieces.push(text), never);
    assert.deepEqual(reply, { text: "Hello world", tokens });
    assert.deepEqual(pieces, ["Hello", " world"]);
  });

  for (const how of ["in one piece", "streamed"] as const) {
    it(`calls a tool and sends its result, ${how}`, async () => {
      gateway.worker.script(calling[how]);
      const inputs: unknown[] = [];
      const text = await at().useTool(how, (input) => void inputs.push(input));
      assert.deepEqual([text, inputs], ["Hello world", [{ n: 2 }]]);
      assertToolTurn(gateway.lastBody());
    });
  }

  function assertToolTurn(body: ReturnType<typeof gateway.lastBody>): void {
    if (!isNative) {
      const [asked, result] = body.messages.slice(-2);
      assert.deepEqual(body.tools[0].function.name, add.name);
      assert.deepEqual(asked.tool_calls, [call]);
      assert.deepEqual(result, { role: "tool", content: sum, tool_call_id: call.id });
    } else if (api === "responses") {
      const [asked, { call_id: id, output }] = body.input.slice(-2);
      assert.equal(body.tools[0].name, add.name);
      assert.deepEqual([asked.call_id, asked.arguments], [call.id, call.function.arguments]);
      assert.deepEqual([id, output], [call.id, sum]);
    } else {
      const [{ content: asked }, { content: results }] = body.messages.slice(-2);
      assert.equal(body.tools[0].name, add.name);
      assert.deepEqual([asked.at(-1).id, asked.at(-1).input], [call.id, { n: 2 }]);
      assert.equal(results[0].tool_use_id, call.id);
      assert.ok(JSON.stringify(results[0].content).includes(sum));
    }
  }

  it("reads structured output", async () => {
    gateway.worker.script(message({ content: '{"n":7}' }));
    assert.deepEqual(await at().parse(), { n: 7 });
    const { response_format: translated, text, output_config: config } = gateway.lastBody();
    const format = translated?.json_schema ?? text?.format ?? config?.format;
    assert.deepEqual(format.schema.properties, { n: { type: "number" } });
  });

  it("aborts a stream: the request to the worker ends, and exactly the part that arrived is charged", async () => {
    const earlier = gateway.charges().length;
    const held = gateway.worker.hold();
    const leaving = new AbortController();
    const reading = at()
      .stream((text) => void (text === "x" && leaving.abort()), leaving.signal)
      .then(
        () => false,
        () => true,
      );
    const worker = await held;
    worker.begin();
    await worker.push(eventsFor(worker).delta({ ...role, content: "x" }));
    await worker.left;
    assert.equal(await reading, client.rejectsAbort);
    const row = (await gateway.charged(earlier + 1)).at(-1);
    // decisions.md section 3: a token for two bytes of the prompt, and one for the text.
    assert.deepEqual([row?.outcome, row?.usedMilliCu], ["clientLeft", 2 * tokenMilli]);
  });

  it("reports a stream that breaks, and what it got before", async () => {
    gateway.worker.script(async (exchange) => {
      exchange.begin();
      await exchange.push(eventsFor(exchange).delta({ ...role, content: "x" }));
      exchange.cut();
    });
    let text = "";
    const reading = at().stream((piece) => void (text += piece), never);
    await assert.rejects(reading);
    assert.equal(text, "x");
  });

  it("recognizes every refusal, with the headers that say whether to try again", async () => {
    const poor = (await gateway.gateway.issue({ cuLimit24hMilli: 1 })).key;
    const unable = (await gateway.gateway.issue({ capabilities: [] })).key;
    const asks: Readonly<Record<Refusal, () => Promise<unknown>>> = {
      "wrong key": () => at({ key: `gateway_dev_${"0".repeat(32)}` }).ask(),
      "missing capability": () => at({ key: unable }).ask(),
      "credit used up": () => at({ key: poor }).ask(),
      "unknown model": () => at({ model: "No/Model-1" }).ask(),
      "request refused by the worker": () => (gateway.worker.script(failing(400)), at().ask()),
      "failure of the worker": () => (gateway.worker.script(failing(500)), at().ask()),
    };
    const seen = new Map<string, Failure>();
    for (const [refusal, ask] of Object.entries(asks)) {
      const failed = await failureOf(client, ask());
      assert.ok(!failed.message.includes(workerSecret));
      assert.ok(failed.header("x-request-id"), refusal);
      assert.equal(
        failed.header("x-sluice-error"),
        api === "chat" ? undefined : codes[refusal as Refusal],
        refusal,
      );
      seen.set(refusal, failed);
    }
    const found = [...seen].map(([refusal, { status, kind }]) => [refusal, { status, kind }]);
    const expected = Object.entries(statuses).map(([refusal, status]) => [
      refusal,
      { status, kind: client.refusals[refusal as Refusal] },
    ]);
    assert.deepEqual(Object.fromEntries(found), Object.fromEntries(expected));
    assert.match(seen.get("failure of the worker")?.message ?? "", /the model could not answer/);
    assert.match(seen.get("unknown model")?.message ?? "", /No\/Model-1/);
    assert.equal(seen.get("failure of the worker")?.header("retry-after"), "5");
    const empty = seen.get("credit used up");
    assert.equal(empty?.header("retry-after"), "60");
    if (api !== "chat") assert.equal(empty.header("x-should-retry"), "false");
  });
}

/** Two requests with tools, and one more, which the rate does not allow. */
async function judgeRefusedTools(client: Client): Promise<void> {
  await using gateway = await startResponses({
    network: "",
    otherwise: hello,
    account: { rpsLimit: 1 },
    clock: manualClock(),
  });
  const { url, key } = gateway.gateway;
  const calls = client.at({ url, key, model });
  for (const how of ["in one piece", "streamed"] as const) {
    const asked = calls.useTool(how, () => assert.fail("there was no call"));
    if (client.api === "chat") {
      // gateway.md has them ignored, and `X-Sluice-Ignored` names them.
      assert.equal(await asked, "Hello world");
      assert.ok(!("tools" in (gateway.worker.received.at(-1)?.body ?? {})));
    } else {
      const { status, message: text } = await failureOf(client, asked);
      assert.equal(status, 400);
      assert.match(text, /tools: .*add `tools` to `passes` of the network/);
      assert.equal(gateway.worker.received.length, 0);
    }
  }
  const { status, header } = await failureOf(client, calls.ask());
  assert.equal(status, 429);
  assert.ok(Number(header("retry-after")) >= 1);
  assert.equal(header("x-should-retry"), undefined);
}

async function failureOf(client: Client, work: Promise<unknown>): Promise<Failure> {
  const error: unknown = await work.then(
    () => assert.fail("it succeeded"),
    (reason: unknown) => reason,
  );
  return client.read(error);
}
