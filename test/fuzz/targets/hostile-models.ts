/**
 * Chat completions with a hostile model server. Whatever the server answers, the gateway continues to run, a request is
 * charged at most once and never above its reservation, the charge equals the one that the client was shown, and the
 * next caller gets the answer to its own question.
 */
import assert from "node:assert/strict";
import { join } from "node:path";
import * as fc from "fast-check";
import type { UsageRow } from "../../../plugins/billing/metering/charge-text.ts";
import { readUsage } from "../../../plugins/billing/metering/read-usage.ts";
import { manualClock } from "../../../src/testing/clock.ts";
import { startTestGateway, type TestGateway } from "../../../plugins/contracts/testing.ts";
import { dataOf } from "../../plugins/inference/networks/chat-events.ts";
import { chatBody, model, pipelineOf, tokenMilli } from "../../plugins/inference/chat/gateway.ts";
import { gaugesAreZero } from "../gauges.ts";
import { mutantsOf } from "../mutants.ts";
import { httpAnswer, startRawServer, type RawAnswer, type RawServer } from "../raw-server.ts";
import type { FuzzTarget } from "../target.ts";

const maxTokens = 20;
/** Tokens that a chat template may add to a prompt: the allowance of the reservation. */
const templateTokens = 16_384;

/** Mostly the usual value, so that most answers are valid except for one part. */
const mostly = (usual: unknown, odd: fc.Arbitrary<unknown>): fc.Arbitrary<unknown> =>
  fc.oneof({ weight: 5, arbitrary: fc.constant(usual) }, odd);

const count = fc.constantFrom(0, 1, maxTokens, maxTokens + 1, 1e6, 1e9, 1e10, 2 ** 53);
const odd = fc.constantFrom<unknown>(undefined, null, -1, 0.5, 1e300, "7", true, [], {});
const usage = fc.record({
  prompt_tokens: fc.oneof(count, mostly(5, odd)),
  completion_tokens: fc.oneof(count, mostly(2, odd)),
  total_tokens: fc.oneof(count, odd),
  prompt_tokens_details: mostly(undefined, fc.record({ cached_tokens: fc.oneof(count, odd) })),
  completion_tokens_details: mostly(undefined, fc.record({ reasoning_tokens: count })),
});
const text = fc.oneof(
  fc.constantFrom("a", "", "\u65e5\u672c", "x".repeat(500), "<think>", "\n\n", "data: [DONE]"),
  fc.string({ unit: "binary", maxLength: 10 }),
);
const delta = fc.record(
  { role: text, content: text, reasoning: text, reasoning_content: text, tool_calls: odd },
  { requiredKeys: [] },
);
const choice = fc.record({
  index: mostly(0, odd),
  delta: fc.oneof(delta, odd),
  message: mostly({ role: "assistant", content: "a" }, fc.record({ content: fc.oneof(text, odd) })),
  finish_reason: fc.oneof(fc.constantFrom("stop", null, "length"), odd),
});
const document = fc
  .record({
    id: mostly("a", odd),
    choices: fc.oneof({ weight: 4, arbitrary: fc.array(choice, { maxLength: 2 }) }, odd),
    usage: fc.oneof({ weight: 4, arbitrary: usage }, odd),
    error: mostly(undefined, fc.constant({ message: "secret of the worker" })),
  })
  .map((value) => JSON.stringify(value));
const event = fc.oneof(
  { weight: 4, arbitrary: document.map((each) => `data: ${each}\n\n`) },
  fc.constantFrom("data: [DONE]\n\n", ": ping\n\n", "data:\n\n", "\n", "event: x\r\n\r\n"),
);
/** Some are much longer than requested. */
const stream = fc
  .tuple(fc.array(event, { maxLength: 6 }), fc.constantFrom(1, 1, 1, 60))
  .map(([events, times]) => `${events.join("").repeat(times)}data: [DONE]\n\n`);
const status = mostly(200, fc.constantFrom(400, 404, 422, 429, 500, 503, 204, 302, 100));
const streamed = fc
  .tuple(status, stream)
  .map(([code, body]) => httpAnswer(Number(code), body, "text/event-stream"));
const whole = fc.tuple(status, document).map(([code, body]) => httpAnswer(Number(code), body));

const mostlyTrue = fc.integer({ min: 0, max: 7 }).map((dice) => dice > 0);

/** Latin-1 text, which is easier to read in a failure than bytes. */
const hostile = fc
  .tuple(fc.boolean(), mostlyTrue, fc.array(fc.nat(2_000), { maxLength: 3 }))
  .chain(([isStreamed, isAsAsked, cuts]) => {
    const sent = isStreamed === isAsAsked ? streamed : whole;
    const bytes = fc.oneof({ weight: 2, arbitrary: sent }, mutantsOf(sent, 3));
    return bytes.map((each) => ({ isStreamed, cuts, bytes: each.toString("latin1") }));
  });

export const hostileModels: FuzzTarget = {
  name: "hostile-models",
  async run(random) {
    await using server = await startRawServer(JSON.stringify({ data: [{ id: model }] }));
    await using gateway = await startTestGateway({
      pipeline: pipelineOf({}),
      env: { WORKER_URL: server.url, LOG_LEVEL: "silent" },
      clock: manualClock(),
    });
    let asked = 0;
    const title = "a request is charged once and within its reservation, whatever the server sends";
    await random.check(title, hostile, 120, async ({ bytes, cuts, isStreamed }) => {
      asked++;
      const answer = { pieces: pieces(Buffer.from(bytes, "latin1"), cuts), staysOpen: false };
      await checkAnswer(gateway, server, answer, isStreamed, `hostile-${asked}`);
      // A request that coincides with the end of a kept connection is not repeated, because the server may have read
      // it.
      await server.ended();
      await servesNext(gateway, server, `next-${asked}`);
    });
    await gaugesAreZero(gateway.adminUrl);
    const broken = gateway.lines.filter((line) => /broke|a plugin failed/.test(line));
    assert.deepEqual(broken, []);
  },
};

function pieces(bytes: Buffer, cuts: readonly number[]): readonly Buffer[] {
  const places = [0, ...cuts.map((cut) => Math.min(cut, bytes.length)).sort((a, b) => a - b)];
  return places.map((from, at) => bytes.subarray(from, places[at + 1] ?? bytes.length));
}

async function checkAnswer(
  gateway: TestGateway,
  server: RawServer,
  answer: RawAnswer,
  isStreamed: boolean,
  id: string,
): Promise<void> {
  server.answer = answer;
  const options = isStreamed ? { stream: true, stream_options: { include_usage: true } } : {};
  const { response, text: received, sentBytes } = await ask(gateway, id, options);
  assert.ok([200, 400, 503].includes(response.status), received);
  assert.ok(!received.includes("secret of the worker"));
  const charges = chargesOf(gateway, id);
  const maxMilliCu = (sentBytes + templateTokens + maxTokens) * tokenMilli;
  assert.ok(charges.length <= 1, `${charges.length} charges`);
  const charged = charges[0]?.usedMilliCu ?? 0;
  assert.ok(charged <= maxMilliCu, `${charged} milli-CU, at most ${maxMilliCu} were reserved`);
  const said = isStreamed ? priceInStream(received) : response.headers.get("x-used-cu-milli");
  if (said !== undefined && said !== null) assert.equal(Number(said), charged);
}

/** An honest answer on the connection that the hostile one may have left open. */
async function servesNext(gateway: TestGateway, server: RawServer, id: string): Promise<void> {
  const message = { role: "assistant", content: id };
  const honest = {
    choices: [{ index: 0, message, finish_reason: "stop" }],
    usage: { prompt_tokens: 3, completion_tokens: 1 },
  };
  server.answer = { pieces: [httpAnswer(200, JSON.stringify(honest))], staysOpen: true };
  const { response, text: received } = await ask(gateway, id, {});
  assert.equal(response.status, 200, received);
  assert.ok(received.includes(`"${id}"`), received);
  assert.equal(response.headers.get("x-used-cu-milli"), String(4 * tokenMilli));
}

async function ask(
  gateway: TestGateway,
  id: string,
  members: object,
): Promise<{ response: Response; text: string; sentBytes: number }> {
  const body = JSON.stringify(chatBody({ max_tokens: maxTokens, ...members }));
  const response = await fetch(`${gateway.url}/v1/chat/completions`, {
    method: "POST",
    headers: {
      authorization: `Bearer ${gateway.key}`,
      "content-type": "application/json",
      "x-request-id": id,
    },
    body,
  });
  return { response, text: await response.text(), sentBytes: body.length };
}

function chargesOf(gateway: TestGateway, id: string): readonly UsageRow[] {
  return [...readUsage(join(gateway.folder, "data"))].filter(({ requestId }) => requestId === id);
}

/** Returns the price in the last chunk; undefined if the stream did not get that far. */
function priceInStream(received: string): number | undefined {
  const price = /"usedCUMilli":(\d+)/.exec(dataOf(received).at(-2) ?? "")?.[1];
  return price === undefined ? undefined : Number(price);
}
