/** A refusal by a credit limit says when there is room again, in the shape of each API, because agents print only its message. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { manualClock } from "../../../src/testing/clock.ts";
import { model, startChat, type ChatGateway, type Answer } from "./chat/gateway.ts";
import { message, messagesBody } from "./messages/gateway.ts";

const inTime = { timeout: 60_000 };
/** 333 tokens. */
const limitMilli = 1000;
const network = "passes: [tools]";

const requests = {
  responses: { model, input: "Hi", max_output_tokens: 140 },
  messages: messagesBody({ max_tokens: 140 }),
  embeddings: { model, input: "x".repeat(140) },
};

async function refusals(gateway: ChatGateway): Promise<[string, Answer][]> {
  gateway.worker.script(message({ content: "x" }, "stop", usageOf));
  const first = await gateway.send(messagesBody({ max_tokens: 250 }), { path: "/v1/messages" });
  assert.equal(first.status, 200, first.text);
  await gateway.charged(1);
  const answers: [string, Answer][] = [];
  for (const [api, body] of Object.entries(requests)) {
    answers.push([api, await gateway.send(body, { path: `/v1/${api}` })]);
  }
  return answers;
}

const usageOf = { prompt_tokens: 2, completion_tokens: 248, total_tokens: 250 };

function timeIn(api: string, { status, text, json, headers }: Answer): string {
  assert.equal(status, 429, `${api}: ${text}`);
  assert.equal(headers["x-sluice-error"], "GATEWAY_CU_LIMIT_EXCEEDED");
  assert.equal(headers["x-should-retry"], "false", api);
  if (api === "messages") assert.equal(json.error.type, "rate_limit_error");
  const before = api === "messages" ? ", until " : "; there is room again at ";
  const [, time] = json.error.message.split(before);
  assert.match(String(time), /^\d{4}-\d\d-\d\dT[\d:]{8}\.000Z$/, `${api}: ${json.error.message}`);
  return String(time);
}

describe("the time at which there is credit again", inTime, () => {
  it("is in the message of the refusal by the 24h limit of a key", async () => {
    const clock = manualClock();
    await using gateway = await startChat({
      network,
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
      network,
      clock,
      settings: `plans: { free: { rps: 1000, includedCu: ${limitMilli / 1000}, overageUsdPerCu: none } }`,
      account: { plan: "free" },
    });
    const now = new Date(clock.now());
    const end = new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + 1)).toISOString();
    for (const [api, answer] of await refusals(gateway)) assert.equal(timeIn(api, answer), end);
  });
});
