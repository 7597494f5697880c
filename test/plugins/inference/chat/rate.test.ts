/** A configured rate that cannot be read: the last value counts for a day, and then chat is refused and not free. */
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { manualClock } from "../../../../src/testing/clock.ts";
import { until } from "../../../store/redis/open-redis.ts";
import { startWorker, type Worker } from "../networks/scripted-worker.ts";
import { assertChatError, startChat, tokenMilli, type ChatGateway } from "./gateway.ts";

const day = 86_400_000;
const rate = '"${RATE_URL}#/usd"';

describe("a rate that cannot be read", { timeout: 30_000 }, () => {
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
    const answer = await chat.ask();
    assert.equal(answer.json.usage.usedCUMilli, 7 * tokenMilli);
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
