import assert from "node:assert/strict";
import { test } from "node:test";
import { failureOf, openNetwork, resultOf } from "./asking.ts";
import { costOf, estimated, firstEvent, two } from "./calls.ts";
import { silent } from "./scripts.ts";
import { startWorker } from "./worker.ts";

const inTime = { timeout: 10_000 };

test("a worker silent before its head, and then another, time out", inTime, async () => {
  await using worker = await startWorker({ otherwise: silent });
  await using opened = await two(worker, worker);
  const holding = [worker.hold(), worker.hold()];
  const asked = opened.ask();
  for (const held of holding) {
    const exchange = await held;
    opened.seen.clock.advance(9_000);
    assert.equal(worker.inFlight, 1, "not before its time");
    opened.seen.clock.advance(2_000);
    await exchange.left;
  }
  assert.deepEqual(await failureOf(asked), { failure: "timedOut", result: undefined });
});

test("an answer in one piece may take its time to begin, but not for ever", inTime, async () => {
  await using worker = await startWorker();
  await using opened = await openNetwork(worker.url);
  const held = worker.hold();
  const asked = opened.ask({ streamed: false });
  const exchange = await held;
  opened.seen.clock.advance(59_000);
  assert.equal(worker.inFlight, 1);
  opened.seen.clock.advance(2_000);
  await exchange.left;
  assert.deepEqual(await failureOf(asked), { failure: "timedOut", result: undefined });
});

test("a worker silent after the first chunk is timed out, and charged so far", inTime, async () => {
  await using worker = await startWorker();
  await using opened = await openNetwork(worker.url);
  const held = worker.hold();
  const asked = opened.ask();
  const exchange = await held;
  exchange.begin();
  const arrived = asked.arrived();
  await exchange.push(firstEvent);
  await arrived;
  opened.seen.clock.advance(11_000);
  const { failure, result } = await failureOf(asked);
  assert.equal(failure, "timedOut");
  assert.equal(result?.usage.completionTokens, 1);
  await exchange.left;
});

test(
  "a caller who left before the first chunk owes nothing, and nobody else is asked",
  inTime,
  async () => {
    await using worker = await startWorker();
    await using opened = await two(worker, worker);
    const held = worker.hold();
    const asked = opened.ask();
    const exchange = await held;
    assert.equal(asked.call.abort(), undefined);
    await exchange.left;
    await worker.idle();
    assert.equal(worker.received.length, 1);
    assert.equal(asked.call.abort(), undefined, "and again");
  },
);

test("a caller who left at once has asked nobody", inTime, async () => {
  await using worker = await startWorker();
  await using opened = await openNetwork(worker.url);
  assert.equal(opened.ask().call.abort(), undefined);
  await resultOf(opened.ask({ streamed: false }));
  assert.equal(worker.received.length, 1);
});

test(
  "a caller who left amid the stream pays for what came, and the worker is let go",
  inTime,
  async () => {
    await using worker = await startWorker();
    await using opened = await openNetwork(worker.url);
    const held = worker.hold();
    const asked = opened.ask();
    const exchange = await held;
    exchange.begin();
    const arrived = asked.arrived();
    await exchange.push(firstEvent);
    await arrived;
    const result = asked.call.abort();
    assert.ok(result);
    assert.deepEqual(costOf(result), { ...estimated, completionTokens: 1, costMilli: 18 });
    await exchange.left;
    assert.equal(asked.call.abort(), undefined, "once");
  },
);
